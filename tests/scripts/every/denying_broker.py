"""A broker in a process of its own that denies everything to the client `nobody`, and nothing to other clients.

`python -m tests.scripts.every.denying_broker FOLDER` prints its address, and serves until SIGTERM.
"""

import contextlib
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

from ottla.broker.config.broker_config import BrokerConfig
from ottla.broker.loop.process import serve
from ottla.broker.net.session import RequestContext
from ottla.broker.node import Node
from ottla.broker.requests.authorizer import Operation, ResourceType
from tests.scripts.running import PATIENCE_S

NOBODY = "nobody"


class _Denial:
    """Denies by client id, because Ottla has no authenticated principals."""

    def authorize(self, context: RequestContext, operation: Operation, resource_type: ResourceType, name: str) -> bool:
        return context.client_id != NOBODY

    def authorize_any(self, context: RequestContext, operation: Operation, resource_type: ResourceType) -> bool:
        return context.client_id != NOBODY


@contextlib.contextmanager
def denying(folder: Path) -> Iterator[str]:
    """Run the broker; yield its address."""
    command = [sys.executable, "-m", "tests.scripts.every.denying_broker", str(folder)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True) as process:
        assert process.stdout is not None
        yield process.stdout.readline().strip()
        process.terminate()
        process.wait(PATIENCE_S)


if __name__ == "__main__":
    settings = {
        "listeners": "PLAINTEXT://127.0.0.1:0",
        "log.dirs": sys.argv[1],
        "broker.id": "1",
        "offsets.topic.num.partitions": "1",
        "group.initial.rebalance.delay.ms": "0",
        "auto.create.topics.enable": "false",
    }
    config = BrokerConfig.load(None, settings, {})[0]
    serve(lambda: Node(config, authorizer=_Denial()), ready=lambda bootstrap: print(bootstrap, flush=True))
