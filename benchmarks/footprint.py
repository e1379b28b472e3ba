"""A broker's resident memory with many partitions and with many clients, each on a fresh broker.

`measure` yields the figures of one kind of broker, one for each row.
"""

import contextlib
import resource
import socket
import time
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

from compat_tests.support.brokers import API_VERSIONS_V0, Broker, running
from compat_tests.support.clients import create_topic

MB = 1e6
PATIENCE_S = 300.0
PARTITIONS_A_TOPIC = 1000
FEW_TOPICS, MANY_TOPICS = 1, 10
CLIENTS = 5000
# A pause before the memory is read, for garbage collection and checkpoints after a load.
SETTLE_S = 3.0


class Row(NamedTuple):
    """A row of the table; less is better in all of them."""

    name: str
    unit: str
    bar: float | None


ROWS = (
    Row("creating 1,000 partitions", "s", 0.7),
    Row("resident memory with 1,000 partitions", "MB", 0.5),
    Row("resident memory with 10,000 partitions", "MB", 0.5),
    Row("resident memory with 5,000 idle connections", "MB", 0.3),
)


def measure(system: type[Broker], parent: Path) -> Iterator[tuple[Row, float]]:
    """Yield the figures of all rows.

    The data stays in `parent`, because ext4 creates files many times slower for a while after it removed files.
    """
    with running(system, parent=parent) as broker:
        began = time.perf_counter()
        create_many(broker, 0)
        yield ROWS[0], time.perf_counter() - began
        time.sleep(SETTLE_S)
        yield ROWS[1], broker.resident_bytes() / MB
        for number in range(FEW_TOPICS, MANY_TOPICS):
            create_many(broker, number)
        time.sleep(SETTLE_S)
        yield ROWS[2], broker.resident_bytes() / MB
    with running(system, parent=parent) as broker, _idle_clients(broker):
        time.sleep(SETTLE_S)
        yield ROWS[3], broker.resident_bytes() / MB


def create_many(broker: Broker, number: int) -> None:
    """Create a topic of many partitions."""
    create_topic(broker.bootstrap, f"many-{number}", PARTITIONS_A_TOPIC, patience_s=PATIENCE_S)


@contextlib.contextmanager
def _idle_clients(broker: Broker) -> Iterator[None]:
    """Hold connections that sent one ApiVersions request and are idle."""
    _, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
    with contextlib.ExitStack() as stack:
        for _ in range(CLIENTS):
            client = stack.enter_context(socket.create_connection(("127.0.0.1", broker.port), 30))
            client.sendall(API_VERSIONS_V0)
            if not client.recv(4096):
                raise ConnectionError(f"{broker.name} closed an idle connection")
        yield
