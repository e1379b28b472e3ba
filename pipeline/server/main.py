"""`ottla pipeline serve`: the parts of a server, wired to each other.

Owns their order, and what is said on the way: one line on stdout when it serves, one on stderr why it cannot. Is given
what is known of jobs: how one is read, checked and run. Counterpart in Kafka: ConnectDistributed.
"""

import logging
import signal
import sys
import threading
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

from kafka.errors import KafkaError

from ottla.pipeline.server import http_server, plugins, topics
from ottla.pipeline.server.herder import Herder, Move
from ottla.pipeline.server.http_server import HttpServer
from ottla.pipeline.server.membership import Membership
from ottla.pipeline.server.rest import Rest, Server
from ottla.pipeline.server.state import status_record
from ottla.pipeline.server.supervisor import CommandOf, Supervisor, file_name
from ottla.pipeline.settings import JobError

logger = logging.getLogger(__name__)

SLOTS: Final = 64
LOOK_EVERY_S: Final = 1.0
PATTERNS: Final = ("*.toml", "*.properties")


@dataclass(frozen=True)
class ServeOptions:
    """What a server is told."""

    directory: Path
    """Has job files, which are loaded at the start, and gets the checkpoints: shared among servers that share jobs."""
    bootstrap: str
    command: CommandOf
    """What runs a job, given its file and the directory for its checkpoint. Exit code 0: it is done."""
    validate: plugins.Validate
    """All that is wrong with a config, which is given with what to call it."""
    move: Move
    """Moves a job, given its config and the directory of its checkpoint: some partitions, or None to where it began."""
    read: Callable[[Path], dict[str, str]]
    """Reads a job file as Connect's flat keys and texts."""
    listen: str = "127.0.0.1:8083"
    group_id: str = "ottla-pipeline"
    config_topic: str = "ottla-pipeline-configs"
    status_topic: str = "ottla-pipeline-status"
    replication_factor: int = -1
    """Of topics that are made; -1 is the broker's default."""
    session_timeout_ms: int = 10_000
    """So long after a server's death others have its jobs."""
    rebalance_timeout_ms: int = 60_000
    """So long a server that has no word from its group's coordinator goes on with its jobs."""
    grace_s: float = 10.0
    """So long a job may take to end."""
    client: Mapping[str, Any] = field(default_factory=dict)
    """Further settings of all clients, under the names that kafka-python has for them."""
    plugins: Sequence[tuple[str, str]] = ()
    """The classes and types of transforms and the like, for /connector-plugins."""


class _Parts:
    """A server that runs."""

    def __init__(self, options: ServeOptions, http: HttpServer, worker_id: str) -> None:
        client = {"bootstrap_servers": options.bootstrap.split(","), "client_id": "ottla-pipeline", **options.client}
        slots_topic = f"{options.group_id}-slots"
        compacted = [options.config_topic, options.status_topic]
        cluster_id, slots = topics.prepare(client, compacted, slots_topic, SLOTS, options.replication_factor)
        self.http = http
        self.topics = topics.Topics(client, options.config_topic, options.status_topic)
        self.supervisor = Supervisor(
            self.topics.state,
            options.directory,
            options.command,
            lambda name, status: self.topics.say(status_record(name, status)),
            worker_id,
            slots,
            grace_s=options.grace_s,
            silence_s=options.session_timeout_ms / 1000,
        )
        self.membership = Membership(
            client,
            options.group_id,
            slots_topic,
            self.supervisor,
            session_timeout_ms=options.session_timeout_ms,
            rebalance_timeout_ms=options.rebalance_timeout_ms,
        )
        self.herder = Herder(
            self.topics.state,
            self.topics.write,
            options.validate,
            options.move,
            lambda name: self.supervisor.checkpoints / file_name(name),
            lambda: not self.membership.is_stable,
        )
        self.rest = Rest(self.herder, Server(cluster_id, self.health, options.plugins))

    def start(self, options: ServeOptions) -> None:
        self.topics.start()
        load(options, self.herder)
        self.supervisor.start()
        self.membership.start()
        self.http.start(self.rest.answer)

    def stop(self) -> None:
        """Jobs end first; then others may have them."""
        self.http.stop()
        self.supervisor.stop()
        self.membership.stop()
        self.topics.stop()

    def is_alive(self) -> bool:
        return self.topics.is_alive and self.supervisor.is_alive and self.membership.is_alive

    def health(self) -> str:
        if not (self.is_alive() and self.membership.is_in_touch):
            return "unhealthy"
        return "healthy" if self.membership.has_joined else "starting"


def load(options: ServeOptions, herder: Herder) -> None:
    """Make jobs of the files in the directory; what a file says counts for more than what was said before."""
    files: dict[str, Path] = {}
    for file in sorted(file for pattern in PATTERNS for file in options.directory.glob(pattern)):
        config = options.read(file)
        name = config.get("name", file.stem)
        if files.setdefault(name, file) != file:
            raise JobError(f"{file}: {files[name]} is a job of the name {name} too")
        if found := plugins.errors(config, name, options.validate):
            raise JobError(f"{file}: {'; '.join(message for _, message in found)}")
        herder.configure(name, config)


def serve(options: ServeOptions) -> int:
    """Serve until a signal says to stop; return the exit code of the process."""
    logging.basicConfig(stream=sys.stderr, level=logging.INFO, format="[%(asctime)s] %(levelname)s %(message)s")
    # What matters of it is told by those who use it.
    logging.getLogger("kafka").setLevel(logging.CRITICAL)
    is_told = threading.Event()
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, lambda *_: is_told.set())
    http = None
    try:
        host, port = http_server.parse_listen(options.listen)
        options.directory.mkdir(parents=True, exist_ok=True)
        http = HttpServer(host, port)
        parts = _Parts(options, http, http_server.worker_id(host, http.port))
        parts.start(options)
    except (ValueError, OSError, JobError, KafkaError, topics.TopicError) as error:
        return _refuse(options, error)
    sys.stdout.write(f"ottla pipeline ready http://{f'[{host}]' if ':' in host else host}:{http.port}\n")
    sys.stdout.flush()
    while parts.is_alive() and not is_told.wait(LOOK_EVERY_S):
        pass
    code = 0 if parts.is_alive() else 1
    parts.stop()
    return code


def _refuse(options: ServeOptions, error: Exception) -> int:
    reason = f"cannot use the brokers at {options.bootstrap}: {error!r}" if isinstance(error, KafkaError) else error
    sys.stderr.write(f"ottla pipeline: {' '.join(str(reason).split())}\n")
    return 1
