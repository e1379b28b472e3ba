"""How a tool reaches brokers, or the controllers of a KRaft cluster in their place.

Counterparts: CommandLineUtils.initializeBootstrapProperties, KafkaAdminClient with bootstrap.controllers.
"""

from collections.abc import Awaitable, Callable, Mapping
from pathlib import Path
from typing import Any, TypeVar

from ottla.client.admin.cluster import use_controllers
from ottla.client.cluster import Client
from ottla.client.config import ClientConfig
from ottla.client.errors import ClientError
from ottla.scripts.kafka.face import Face, JavaError, client_failure, execution
from ottla.scripts.kafka.failures import as_execution
from ottla.scripts.kafka.subcommands import Argument, OneOf, argument
from ottla.wire.config_def import ConfigError
from ottla.wire.errors import KafkaError

T = TypeVar("T")


def bootstraps(*short: str, is_required: bool) -> list[Argument]:
    """Return the two options of which a tool takes one; `short` are their one-letter names."""
    group = OneOf(is_required=is_required)
    return [
        argument("--bootstrap-server", *short[:1], help="The brokers to ask.", group=group),
        argument("--bootstrap-controller", *short[1:], help="The controllers to ask.", group=group),
    ]


def check_bootstraps(values: Mapping[str, Any]) -> None:
    """Raise JavaError unless a cluster is named."""
    if values["bootstrap_server"] is None and values["bootstrap_controller"] is None:
        raise JavaError(
            "org.apache.kafka.server.util.CommandLineUtils$InitializeBootstrapException",
            "You must specify either --bootstrap-controller or --bootstrap-server.",
        )


def client_config(face: Face, bootstrap: str, command_config: str | None, **more: str) -> ClientConfig:
    """Return the properties of a client. JavaError if the file is missing or cannot be what it is."""
    if command_config is not None and not Path(command_config).exists():
        raise JavaError("java.nio.file.NoSuchFileException", command_config)
    try:
        return face.config(bootstrap, command_config, **more)
    except (ConfigError, OSError) as error:
        raise JavaError("org.apache.kafka.common.KafkaException", str(error)) from None


def call(
    face: Face,
    values: Mapping[str, Any],
    command_config: str | None,
    name: str,
    work: Callable[..., Awaitable[T]],
    *arguments: Any,
) -> T:
    """Return `await work(client, *arguments)`. JavaError, as a future throws it, for what fails.

    `name` is the admin client's name for the request.
    """
    check_bootstraps(values)
    controllers = values["bootstrap_controller"]
    config = client_config(face, values["bootstrap_server"] or controllers, command_config)

    async def reached(client: Client) -> T:
        if controllers is not None:
            await use_controllers(client)
        return await work(client, *arguments)

    try:
        return face.with_client(config, reached)
    except KafkaError as error:
        raise as_execution(error, name) from None
    except ClientError as error:
        raise execution(client_failure(error, name)) from None
