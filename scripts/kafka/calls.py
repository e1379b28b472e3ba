"""Calls of Kafka's admin client: a failure is the exception that Kafka's tool would catch.

Owns the connection to a cluster and its timeouts. Must not know the use of a call.
Counterparts: KafkaAdminClient.Call, KafkaFuture.get.
"""

from collections.abc import Awaitable, Callable, Mapping
from pathlib import Path
from typing import Any, Final, TypeVar

from ottla.client.admin.cluster import use_controllers
from ottla.client.cluster import ASK_ELSEWHERE, Client
from ottla.client.config import ClientConfig
from ottla.client.errors import AuthenticationError, ClientError, UnsupportedRequestError
from ottla.scripts.kafka.face import Face, JavaError, as_java, client_failure, execution, timed_out
from ottla.scripts.kafka.flags import Parsed
from ottla.wire.config_def import ConfigError
from ottla.wire.errors import ErrorCode, KafkaError

T = TypeVar("T")
_PATIENCE_SECONDS: Final = 30.0
_CONTROLLERS_FLAG: Final = "bootstrap-controller"
_CONTROLLERS_KEY: Final = "bootstrap.controllers"
_OF_CONTROLLERS: Final = ("alterConfigs", "describeConfigs", "incrementalAlterConfigs", "listNodes")
"""The calls that controllers also answer."""
_OLDER_APIS: Final = {"listClientMetricsResources": "LIST_CLIENT_METRICS_RESOURCES"}
"""Calls whose API has another name today."""


def client_config(face: Face, bootstrap: str, command_config: str | None, **more: str) -> ClientConfig:
    """Return the properties of a client. JavaError if the file is missing or invalid."""
    if command_config is not None and not Path(command_config).exists():
        raise JavaError("java.nio.file.NoSuchFileException", command_config)
    try:
        return face.config(bootstrap, command_config, **more)
    except (ConfigError, OSError) as error:
        cause = JavaError("org.apache.kafka.common.config.ConfigException", str(error))
        raise JavaError(
            "org.apache.kafka.common.KafkaException", "Failed to create new KafkaAdminClient", cause
        ) from None


def reached(face: Face, config: ClientConfig, call: str, work: Callable[..., Awaitable[T]], *arguments: Any) -> T:
    """Return `await work(client, *arguments)`. JavaError, as a future throws it, for a failure.

    `call` is the admin client's name for the first request.
    """
    try:
        return face.with_client(config, work, *arguments)
    except KafkaError as error:
        raise as_execution(error, call) from None
    except ClientError as error:
        if not isinstance(error, AuthenticationError | UnsupportedRequestError):
            face.complain(f"{error}. {error.hint}".rstrip())
        raise execution(client_failure(error, call)) from None


def as_execution(error: KafkaError, call: str) -> JavaError:
    """Return the exception of a future that failed with an error. For an unavailable broker it is a timeout."""
    is_away = error.code in ASK_ELSEWHERE or error.code == ErrorCode.BROKER_NOT_AVAILABLE
    return execution(timed_out(call) if is_away else as_java(error))


def opened(face: Face, parsed: Parsed, work: Callable[..., Awaitable[T]], *arguments: Any) -> T:
    """Return `await work(client, *arguments)` with a client of the flags' cluster."""
    is_of_controllers = parsed.knows(_CONTROLLERS_FLAG) and parsed.has(_CONTROLLERS_FLAG)
    server = parsed.value(_CONTROLLERS_FLAG if is_of_controllers else "bootstrap-server")
    more = {_CONTROLLERS_KEY: server} if is_of_controllers else {}

    async def main(client: Client) -> T:
        if is_of_controllers:
            await asked(client, "listNodes", lambda: use_controllers(client), seconds=None)
        return await work(client, *arguments)

    return face.with_client(client_config(face, server, command_config(parsed), **more), main)


def command_config(parsed: Parsed) -> str | None:
    """Return the path of the file of client properties. JavaError if it does not exist."""
    file: str | None = parsed.value("command-config")
    if file is not None and not Path(file).exists():
        raise JavaError("java.nio.file.NoSuchFileException", file)
    return file


def asks_controllers(client: Client) -> bool:
    """Whether the client is connected to the controllers of a KRaft cluster, not to brokers."""
    return _CONTROLLERS_KEY in client.config.texts


def _refused_by_controllers(call: str) -> JavaError:
    message = "This Admin API is not yet supported when communicating directly with the controller quorum."
    error = JavaError("org.apache.kafka.common.errors.UnsupportedEndpointTypeException", message)
    if call == "findAllBrokers":
        error = JavaError("org.apache.kafka.common.KafkaException", "Failed to find brokers to send ListGroups", error)
    return execution(error)


async def asked(
    client: Client, call: str, work: Callable[[], Awaitable[T]], seconds: float | None = _PATIENCE_SECONDS
) -> T:
    """Return `await work()`. JavaError, as a future throws it, for a failure or after `seconds`.

    `call` is the name of the call in Kafka's client. None for `seconds` is the client's timeout.
    """
    import trio

    if asks_controllers(client) and call not in _OF_CONTROLLERS:
        raise _refused_by_controllers(call)
    limit = client.config.seconds("default.api.timeout.ms")
    expired = JavaError("java.util.concurrent.TimeoutException", None)
    if seconds is None or seconds > limit:
        seconds, expired = limit, execution(timed_out(call))
    with trio.move_on_after(seconds):
        try:
            return await work()
        except KafkaError as error:
            if error.code == ErrorCode.BROKER_NOT_AVAILABLE:
                # Kafka's client would wait for the broker until its timeout.
                raise expired from None
            raise execution(as_java(error)) from None
        except ClientError as error:
            if isinstance(error, UnsupportedRequestError):
                error.api = _OLDER_APIS.get(call, error.api)
            raise execution(client_failure(error, call)) from None
    raise expired


def first_error(results: Mapping[Any, Any]) -> None:
    """Raise the first error among the results of a call, as their common future throws it."""
    for each in results.values():
        if isinstance(each, KafkaError):
            raise execution(as_java(each))
