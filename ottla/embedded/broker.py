"""`Broker` and `Cluster`: a broker, or several, in a child process, for any test suite.

Owns the child, its address, and its temporary directory. Must not know how a broker works: no broker's code runs in the
caller's process, so the import costs next to nothing. Counterpart in Kafka: KafkaClusterTestKit.
"""

import os
import selectors
import shutil
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from types import TracebackType
from typing import Any, Self

from ottla.wire.config_def import render

# A test's first consumer does not wait for further members of its group.
FOR_TESTS = {"group.initial.rebalance.delay.ms": "0"}
START_TIMEOUT_S = 30.0
STOP_TIMEOUT_S = 15.0
HOST = "127.0.0.1"
READY = b"ottla ready bootstrap="
DONE = "ottla done"
REFUSED = "ottla: "
_CREATE_TOPICS_VERSION = 7
_ELECTION_S = 0.02


class BrokerError(RuntimeError):
    """The broker did not start, or did not stop cleanly; the text ends with the broker's output."""


class _Child:
    """A child process that prints its bootstrap address once it serves."""

    def __init__(self, overrides: Mapping[str, Any]) -> None:
        self._overrides = FOR_TESTS | _settings(overrides)
        self._folder: Path | None = None
        self._process: subprocess.Popen[bytes] | None = None
        self._bootstrap: str | None = None

    def _arguments(self, folder: Path) -> Sequence[str]:
        """Return the module that the child runs, and its arguments."""
        raise NotImplementedError

    def __enter__(self) -> Self:
        self._launch()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    @property
    def bootstrap(self) -> str:
        """The addresses for clients: HOST:PORT, separated by commas."""
        if self._bootstrap is None:
            raise BrokerError("the broker has not been started")
        return self._bootstrap

    @property
    def folder(self) -> Path:
        """The temporary directory of the data and of the output (`broker.log`)."""
        if self._folder is None:
            raise BrokerError("the broker has not been started")
        return self._folder

    @property
    def pid(self) -> int:
        """The number of the process."""
        if self._process is None:
            raise BrokerError("the broker is not running")
        return self._process.pid

    @property
    def output(self) -> str:
        """The broker's output, over all starts."""
        file = self.folder / "broker.log"
        return file.read_text(errors="replace") if file.exists() else ""

    def create_topic(self, name: str, partitions: int | None = None) -> None:
        """Create a topic and return when its partitions have leaders; BrokerError if it cannot be created.

        `partitions` is `num.partitions` by default. Each partition has `default.replication.factor` replicas.
        """
        refusal = "the broker is not running"
        if self._process is not None:
            refusal = _create_topic(self.bootstrap, name, -1 if partitions is None else partitions)
        if refusal:
            raise BrokerError(f"topic {name} cannot be created: {refusal}")

    def close(self) -> None:
        """Stop and remove the data; BrokerError if the child does not end cleanly."""
        try:
            self._stop()
        finally:
            if self._folder is not None:
                shutil.rmtree(self._folder, ignore_errors=True)
            self._folder = self._bootstrap = None

    def _launch(self) -> None:
        if self._process is not None:
            raise BrokerError("the broker is running")
        if self._folder is None:
            self._folder = Path(tempfile.mkdtemp(prefix="ottla-"))
        try:
            self._start_process(self._folder)
        except BaseException:
            self._end(subprocess.Popen.kill)
            if self._bootstrap is None:
                self.close()
            raise

    def _stop(self) -> None:
        if (code := self._end(subprocess.Popen.terminate)) != 0:
            raise BrokerError(f"the broker ended with {code}:\n{self._tail()}")

    def _start_process(self, folder: Path) -> None:
        # -P: a folder of the caller must not be imported in place of a module of the same name.
        command = [sys.executable, "-P", "-m", *self._arguments(folder)]
        with (folder / "broker.log").open("ab") as log:
            # A process group of its own: the terminal's Ctrl-C reaches the caller alone, which then stops the broker.
            self._process = subprocess.Popen(
                command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=log, cwd=folder, process_group=0
            )
        line = _first_line(self._process, START_TIMEOUT_S)
        if not line.startswith(READY):
            code = self._end(subprocess.Popen.kill)
            raise BrokerError(self._refusal() or f"the broker did not start (exit code {code}):\n{self._tail()}")
        self._bootstrap = line.removeprefix(READY).decode().strip()

    def _end(self, how: Any) -> int:
        """Signal the process, wait for its end and return its exit code; 0 if no process runs."""
        process, self._process = self._process, None
        if process is None:
            return 0
        how(process)
        try:
            return process.wait(STOP_TIMEOUT_S)
        except subprocess.TimeoutExpired:
            process.kill()
            return process.wait()
        finally:
            # Only now, because the child removes its data when this pipe ends.
            for pipe in (process.stdin, process.stdout):
                if pipe is not None:
                    pipe.close()

    def _refusal(self) -> str | None:
        """Return the child's reason not to start, if its last line is one, or None."""
        last = self.output.rstrip("\n").rpartition("\n")[2]
        return f"the broker did not start: {last.removeprefix(REFUSED)}" if last.startswith(REFUSED) else None

    def _tail(self) -> str:
        return self.output[-4000:]


class Broker(_Child):
    """A Kafka broker that runs during a `with` block.

    Keywords are Kafka's property names with underscores for dots: `Broker(num_partitions=3)`. It listens on a free port
    of the loopback interface. `stop` or `kill`, then `start`, is a restart on the same port and data.
    """

    def __init__(self, **overrides: Any) -> None:
        super().__init__(overrides)
        self._port: socket.socket | None = None

    def start(self) -> None:
        """Start the broker again and return when it serves."""
        self._launch()

    def close(self) -> None:
        """Stop the broker and remove its data; BrokerError if it does not end cleanly."""
        try:
            super().close()
        finally:
            if self._port is not None:
                self._port.close()
            self._port = None

    def stop(self) -> None:
        """Stop the broker with SIGTERM, and keep its data; BrokerError if it does not end cleanly."""
        self._stop()

    def kill(self) -> None:
        """Kill the broker with SIGKILL, and keep its data."""
        self._end(subprocess.Popen.kill)

    def _arguments(self, folder: Path) -> Sequence[str]:
        if self._port is None:
            self._port = reserved_port()
        where = f"{HOST}:{self._port.getsockname()[1]}"
        settings = {"listeners": f"PLAINTEXT://{where}", "log.dirs": str(folder / "data"), **self._overrides}
        return ["ottla.embedded.broker_process", str(folder), *(f"{name}={value}" for name, value in settings.items())]


class Cluster(_Child):
    """Kafka brokers, numbered from 0, that run during a `with` block: on one loop, in one process.

    Keywords are Kafka's property names with underscores for dots, for all brokers.
    """

    def __init__(self, brokers: int = 3, **overrides: Any) -> None:
        super().__init__(overrides)
        self._brokers = brokers

    def stop(self, broker_id: int) -> None:
        """Stop one broker after a controlled shutdown: other brokers lead its partitions before it ends."""
        self._have("stop", broker_id)

    def kill(self, broker_id: int) -> None:
        """End one broker at once, without a controlled shutdown."""
        self._have("kill", broker_id)

    def start(self, broker_id: int) -> None:
        """Start one broker again, on the same port and data."""
        self._have("start", broker_id)

    def partition(self, broker_id: int, *, from_store: bool = True) -> None:
        """Cut one broker off: its connections to and from the other brokers break, and new ones are refused.

        With `from_store` its session ends after `zookeeper.session.timeout.ms` (2000 here, unless set), and others lead
        its partitions. The broker does not learn of that, and clients reach it as before.
        """
        self._have("partition" if from_store else "part", broker_id)

    def heal(self, broker_id: int | None = None) -> None:
        """Undo `partition`, for one broker or for all."""
        for each in range(self._brokers) if broker_id is None else [broker_id]:
            self._have("heal", each)

    def _arguments(self, folder: Path) -> Sequence[str]:
        settings = [f"{name}={value}" for name, value in self._overrides.items()]
        return ["ottla.embedded.cluster_process", str(folder), str(self._brokers), *settings]

    def _have(self, verb: str, broker_id: int) -> None:
        if self._process is None or self._process.stdin is None:
            raise BrokerError("the cluster is not running")
        self._process.stdin.write(f"{verb} {broker_id}\n".encode())
        self._process.stdin.flush()
        answer = _first_line(self._process, START_TIMEOUT_S).decode().strip()
        if answer != DONE:
            raise BrokerError(f"{verb} {broker_id}: {answer or 'no answer'}\n{self._tail()}")


def _settings(keywords: Mapping[str, Any]) -> dict[str, str]:
    """Return Kafka's keys and the text of their values; TypeError for a keyword that names no key."""
    settings = {keyword.replace("_", "."): render(value) for keyword, value in keywords.items()}
    if settings:
        from ottla.broker.config.broker_config import (  # 25 ms that a broker without keywords need not pay
            is_known,
            similar_key,
        )

        for keyword in keywords:
            if not is_known(name := keyword.replace("_", ".")):
                guess = similar_key(name)
                if guess is not None and "." not in keyword:
                    guess = guess.replace(".", "_")
                raise TypeError(f"unknown keyword {keyword}" + (f"; did you mean {guess}?" if guess else ""))
    return settings


def _create_topic(bootstrap: str, name: str, partitions: int) -> str:
    """Send CreateTopics to each broker until the controller has created a topic; return the refusal, empty if none.

    If brokers answer and none is the controller, an election is under way, and the request is sent again.
    """
    from ottla.wire.errors import ErrorCode

    refusal, is_election = "", True
    deadline = time.monotonic() + START_TIMEOUT_S
    while is_election and time.monotonic() < deadline:
        is_election = False
        for address in bootstrap.split(","):
            try:
                code, message = _ask_for_topic(address, name, partitions)
            except OSError as error:
                refusal = f"{address}: {error}"
                continue
            if code == ErrorCode.NONE:
                return ""
            refusal = message or ErrorCode(code).name
            if code != ErrorCode.NOT_CONTROLLER:
                return refusal
            is_election = True
        time.sleep(_ELECTION_S)
    return refusal


def _ask_for_topic(address: str, name: str, partitions: int) -> tuple[int, str | None]:
    """Send CreateTopics to a broker; return the error code and the message of its response."""
    from ottla.wire.codec import decode_response, encode_request
    from ottla.wire.messages.create_topics import CreatableTopic, CreateTopicsRequest, CreateTopicsResponse

    host, _, port = address.rpartition(":")
    wanted = CreatableTopic(name=name, num_partitions=partitions, replication_factor=-1, assignments=(), configs=())
    request = CreateTopicsRequest(topics=[wanted], timeout_ms=int(1000 * START_TIMEOUT_S))
    with socket.create_connection((host, int(port)), START_TIMEOUT_S) as sock, sock.makefile("rb") as replies:
        sock.sendall(encode_request(_CREATE_TOPICS_VERSION, 1, "ottla", request))
        frame = replies.read(int.from_bytes(replies.read(4), "big"))
    if not frame:
        raise ConnectionError("closed the connection instead of answering")
    _, response = decode_response(memoryview(frame), CreateTopicsRequest, _CREATE_TOPICS_VERSION)
    assert isinstance(response, CreateTopicsResponse)
    (topic,) = response.topics
    return topic.error_code, topic.error_message


def _first_line(process: subprocess.Popen[bytes], timeout_s: float) -> bytes:
    """Return the first line that the child prints, or its part at the child's end or after `timeout_s`."""
    assert process.stdout is not None
    deadline = time.monotonic() + timeout_s
    line = b""
    with selectors.DefaultSelector() as selector:
        selector.register(process.stdout, selectors.EVENT_READ)
        while b"\n" not in line and selector.select(deadline - time.monotonic()):
            if not (read := os.read(process.stdout.fileno(), 4096)):
                break
            line += read
    return line


def reserved_port(port: int = 0) -> socket.socket:
    """Return a socket that is bound to a port (0: a free one) and does not listen, so that a broker can listen.

    The open socket reserves the port also while the broker is stopped, because clients would reach another process.
    """
    sock = socket.socket()
    sock.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    try:
        sock.bind((HOST, port))
    except BaseException:
        sock.close()
        raise
    return sock
