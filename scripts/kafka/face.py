"""A tool's output, its imitated release of Kafka, and its connection to a cluster.

Owns the end of a tool: every exception becomes the lines and the exit code of Kafka's tool.
"""

import sys
from collections.abc import Awaitable, Callable, Mapping
from enum import Enum
from pathlib import Path
from typing import Any, Final, TextIO, TypeVar

from ottla.client.config import ClientConfig, read_properties
from ottla.client.errors import AuthenticationError, ClientError, UnsupportedRequestError
from ottla.scripts.kafka.java.errors import exception_of
from ottla.wire.errors import KafkaError

T = TypeVar("T")
EXECUTION: Final = "java.util.concurrent.ExecutionException"


class Release(Enum):
    """A release of Kafka whose tools can be imitated."""

    V3_9 = "3.9"
    V4_3 = "4.3"

    @property
    def version(self) -> str:
        """Return the output of `--version`."""
        return {"3.9": "3.9.2", "4.3": "4.3.1"}[self.value]

    @property
    def build(self) -> str:
        """Return the output of `--version` of tools with sub-commands."""
        return f"{self.version} (Commit:{self.commit})"

    @property
    def commit(self) -> str:
        """Return the release's commit in Kafka's repository."""
        return {"3.9": "5e9866f43ab8e7e4", "4.3": "26b251a451ce941d"}[self.value]


class ToolExit(Exception):  # noqa: N818
    """The tool ends with a code, with all lines printed."""

    def __init__(self, code: int) -> None:
        super().__init__(code)
        self.code = code


class JavaError(Exception):
    """An exception of Kafka's tool: its class, its message and its cause."""

    def __init__(self, java_class: str, message: str | None, cause: "JavaError | None" = None) -> None:
        super().__init__(message)
        self.java_class = java_class
        self.message = message
        self.cause = cause

    def __str__(self) -> str:
        return self.java_class if self.message is None else f"{self.java_class}: {self.message}"

    def trace(self) -> list[str]:
        """Return the lines of its stack trace without those that begin with a tab."""
        causes: list[str] = []
        cause = self.cause
        while cause is not None:
            causes.append(f"Caused by: {cause}")
            cause = cause.cause
        return [str(self), *causes]


def as_java(error: KafkaError) -> JavaError:
    """Return the exception that Kafka's client throws for an error code."""
    java_class, message = exception_of(error.code)
    return JavaError(java_class, error.detail or message)


def execution(cause: JavaError) -> JavaError:
    """Return an exception as a future throws it."""
    return JavaError(EXECUTION, str(cause), cause)


def illegal_argument(message: str) -> JavaError:
    """Return an IllegalArgumentException."""
    return JavaError("java.lang.IllegalArgumentException", message)


class Face:
    """One run of a tool."""

    def __init__(self, release: Release = Release.V4_3, out: TextIO | None = None, err: TextIO | None = None) -> None:
        self.release = release
        self._out = out or sys.stdout
        self._err = err or sys.stderr

    @property
    def is_3_9(self) -> bool:
        """Whether the release is the last one with ZooKeeper."""
        return self.release is Release.V3_9

    def print(self, line: str = "", end: str = "\n") -> None:
        """Print on stdout."""
        self._out.write(line + end)

    def complain(self, line: str = "", end: str = "\n") -> None:
        """Print on stderr."""
        self._out.flush()
        self._err.write(line + end)

    def complain_trace(self, error: JavaError) -> None:
        """Print a stack trace and an empty line, as `Utils.stackTrace` and println do."""
        for line in error.trace():
            self.complain(line)
        self.complain()

    def flush(self) -> None:
        """Flush stdout and stderr."""
        self._out.flush()
        self._err.flush()

    # The cluster

    def config(self, bootstrap: str, command_config: str | None = None, **more: str) -> ClientConfig:
        """Return the properties of a client: `bootstrap` and `more` override the file."""
        properties: Mapping[str, str] = {} if command_config is None else read_properties(Path(command_config))
        return ClientConfig({"client.id": "adminclient-1", **properties, **more, "bootstrap.servers": bootstrap})

    def with_client(self, config: ClientConfig, work: Callable[..., Awaitable[T]], *arguments: Any) -> T:
        """Return `await work(client, *arguments)`, after waiting for the cluster to be reachable."""
        import trio

        from ottla.client.cluster import open_client

        async def main() -> T:
            async with open_client(config, is_patient=True) as client:
                return await work(client, *arguments)

        return trio.run(main)


def client_failure(error: ClientError, call: str) -> JavaError:
    """Return the exception of Kafka's admin client for an unreachable cluster; `call` is its name of the request."""
    if isinstance(error, UnsupportedRequestError):
        text = f"The node does not support {error.api}"
        return JavaError("org.apache.kafka.common.errors.UnsupportedVersionException", text)
    if isinstance(error, AuthenticationError):
        # Kafka's text has no address.
        text = str(error).partition(": ")[2]
        return JavaError("org.apache.kafka.common.errors.SaslAuthenticationException", text)
    return timed_out(call)


def timed_out(call: str) -> JavaError:
    """Return the exception of Kafka's admin client for a request that could not be sent in time."""
    return JavaError(
        "org.apache.kafka.common.errors.TimeoutException", f"Timed out waiting for a node assignment. Call: {call}"
    )
