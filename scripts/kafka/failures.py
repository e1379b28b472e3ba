"""How Kafka's tools fail: their own exceptions, and the errors of a cluster as exceptions.

PURE but for `connected`. Counterparts: AdminCommandFailedException, AdminOperationException, TerseException.
"""

from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any, TypeVar

from ottla.client.cluster import ASK_ELSEWHERE
from ottla.client.errors import AuthenticationError, ClientError, UnsupportedRequestError
from ottla.scripts.kafka.face import Face, JavaError, Release, as_java, client_failure, execution, timed_out
from ottla.wire.config_def import ConfigError
from ottla.wire.errors import ErrorCode, KafkaError

T = TypeVar("T")


class TerseError(Exception):
    """A message that a tool prints without a stack trace."""


def command_failed(release: Release, message: str, cause: JavaError | None = None) -> JavaError:
    """Return an AdminCommandFailedException."""
    return JavaError(f"{_package(release)}.AdminCommandFailedException", message, cause)


def operation_failed(release: Release, message: str | None, cause: JavaError | None = None) -> JavaError:
    """Return an AdminOperationException."""
    return JavaError(f"{_package(release)}.AdminOperationException", message, cause)


def _package(release: Release) -> str:
    return "org.apache.kafka.server.common" if release is Release.V3_9 else "org.apache.kafka.tools"


def as_execution(error: KafkaError, call: str) -> JavaError:
    """Return the exception of a future that failed by an error. Whoever is not there is waited for in vain."""
    is_away = error.code in ASK_ELSEWHERE or error.code == ErrorCode.BROKER_NOT_AVAILABLE
    return execution(timed_out(call) if is_away else as_java(error))


def connected(
    face: Face,
    bootstrap: str,
    command_config: str | None,
    call: str,
    work: Callable[..., Awaitable[T]],
    *arguments: Any,
    **properties: str,
) -> T:
    """Return `await work(client, *arguments)`. JavaError for all that fails; `call` is the first request."""
    if command_config is not None and not Path(command_config).exists():
        raise JavaError("java.nio.file.NoSuchFileException", command_config)
    try:
        config = face.config(bootstrap, command_config, **properties)
    except (ConfigError, OSError) as error:
        raise JavaError("org.apache.kafka.common.KafkaException", str(error)) from None
    try:
        return face.with_client(config, work, *arguments)
    except KafkaError as error:
        raise as_execution(error, call) from None
    except (AuthenticationError, UnsupportedRequestError) as error:
        raise execution(client_failure(error, call)) from None
    except ClientError as error:
        face.complain(f"{error}. {error.hint}".rstrip())
        raise execution(client_failure(error, call)) from None
