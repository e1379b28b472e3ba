"""The bootstrap options of a tool: brokers, or the controllers of a KRaft cluster.

Counterparts: CommandLineUtils.initializeBootstrapProperties, KafkaAdminClient with bootstrap.controllers.
"""

from collections.abc import Awaitable, Callable, Mapping
from typing import Any, TypeVar

from ottla.client.admin.cluster import use_controllers
from ottla.client.cluster import Client
from ottla.scripts.kafka.calls import client_config, reached
from ottla.scripts.kafka.face import Face, JavaError
from ottla.scripts.kafka.subcommands import Argument, OneOf, argument

T = TypeVar("T")


def bootstraps(*short: str, is_required: bool) -> list[Argument]:
    """Return the two options, which exclude each other; `short` are their one-letter names."""
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


def call(
    face: Face,
    values: Mapping[str, Any],
    command_config: str | None,
    name: str,
    work: Callable[..., Awaitable[T]],
    *arguments: Any,
) -> T:
    """Return `await work(client, *arguments)`. JavaError, as a future throws it, for a failure.

    `name` is the admin client's name for the request.
    """
    check_bootstraps(values)
    controllers = values["bootstrap_controller"]
    config = client_config(face, values["bootstrap_server"] or controllers, command_config)

    async def ask(client: Client) -> T:
        if controllers is not None:
            await use_controllers(client)
        return await work(client, *arguments)

    return reached(face, config, name, ask)
