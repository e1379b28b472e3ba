"""The table of `ottla cluster up`: a row for each broker.

Owns the form of the table. Must not know where its values come from. Counterpart in Kafka: none.
"""

from collections.abc import Mapping, Sequence
from typing import NamedTuple

from rich.table import Table

from ottla.wire.messages.metadata import MetadataResponse


class Process(NamedTuple):
    """A process of the cluster. `end` says how the process ended; None while it runs."""

    name: str
    address: str
    pid: int
    end: str | None = None


class Partitions(NamedTuple):
    """How many partitions a broker leads, how many of these are under-replicated, and how many it hosts."""

    led: int = 0
    under_replicated: int = 0
    hosted: int = 0


def count_partitions(metadata: MetadataResponse) -> dict[int, Partitions]:
    """Return the counts of each broker that hosts a replica."""
    counts: dict[int, Partitions] = {}
    for partition in (each for topic in metadata.topics for each in topic.partitions):
        is_under = len(partition.isr_nodes) < len(partition.replica_nodes)
        for broker_id in partition.replica_nodes:
            led, under_replicated, hosted = counts.get(broker_id, Partitions())
            leads = broker_id == partition.leader_id
            counts[broker_id] = Partitions(led + leads, under_replicated + (leads and is_under), hosted + 1)
    return counts


def table(zookeeper: str, brokers: Mapping[int, Process], metadata: MetadataResponse | None) -> Table:
    """Return the table; `metadata` is None if no broker has answered."""
    shown = Table(title=f"Ottla, with ZooKeeper {zookeeper}", title_justify="left")
    for heading in ("broker", "address", "pid", ""):
        shown.add_column(heading)
    for heading in ("leads", "under-replicated", "hosts"):
        shown.add_column(heading, justify="right")
    counts = {} if metadata is None else count_partitions(metadata)
    for broker_id, process in brokers.items():
        shown.add_row(str(broker_id), process.address, str(process.pid), *_state(broker_id, process, metadata, counts))
    return shown


def _state(
    broker_id: int, process: Process, metadata: MetadataResponse | None, counts: Mapping[int, Partitions]
) -> Sequence[str]:
    if metadata is None:
        return process.end or "does not answer", "?", "?", "?"
    is_controller = metadata.controller_id == broker_id and process.end is None
    numbers = map(str, counts.get(broker_id, Partitions()))
    return process.end or ("controller" if is_controller else ""), *numbers
