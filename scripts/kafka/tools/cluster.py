"""kafka-cluster: a cluster's id and its brokers, and unregistering brokers.

Counterpart: org.apache.kafka.tools.ClusterTool.
"""

from collections.abc import Mapping, Sequence
from typing import Any, Final

from ottla.client.admin.cluster import ClusterDescription, describe_cluster, knows_fenced, unregister_broker
from ottla.client.cluster import Client
from ottla.scripts.kafka.bootstraps import bootstraps, call
from ottla.scripts.kafka.face import Face, JavaError, execution, illegal_argument
from ottla.scripts.kafka.java.hashes import hash_order
from ottla.scripts.kafka.java.numbers import INTEGER
from ottla.scripts.kafka.subcommands import Argument, Parser, ParserError, argument

_UNSUPPORTED: Final = "org.apache.kafka.common.errors.UnsupportedVersionException"


def _parser(*, is_3_9: bool) -> Parser:
    def command(name: str, about: str, *own: Argument) -> Parser:
        properties = [
            argument("--config", help="The old name of --command-config."),
            argument("--command-config", "-c", help="A file of client properties."),
        ]
        if is_3_9:
            properties = [argument("--config", "-c", help="A file of client properties.")]
        return Parser(name, about, [*bootstraps("-b", "-C", is_required=True), *properties, *own])

    commands = [
        command("cluster-id", "Print the cluster's id."),
        command(
            "unregister",
            "Make the cluster forget a broker.",
            argument("--id", "-i", type=INTEGER, is_required=True, help="The broker to forget."),
        ),
    ]
    if not is_3_9:
        fenced = argument("--include-fenced-brokers", action="store_true", help="List fenced brokers too.")
        commands.append(command("list-endpoints", "List the brokers, or the controllers.", fenced))
    return Parser("kafka-cluster", "The id of a cluster, and its brokers.", commands=commands)


def main(arguments: Sequence[str], face: Face) -> int:
    """Run the tool."""
    parser = _parser(is_3_9=face.is_3_9)
    values = parser.parse_or_exit(arguments, face)
    try:
        _WORK[values["command"]](values, _command_config(values, parser, face), face)
    except JavaError as error:
        face.complain(str(error.message))
        face.complain_trace(error)
        return 1
    return 0


def _command_config(values: Mapping[str, Any], parser: Parser, face: Face) -> str | None:
    old, new = values["config"], values.get("command_config")
    if old is not None and new is not None:
        raise ParserError(parser, "--config and --command-config cannot be specified together.")
    if old is not None and not face.is_3_9:
        face.print(
            "Option --config has been deprecated and will be removed in a future version. Use --command-config instead."
        )
    found: str | None = new or old
    return found


async def _described(client: Client, fenced: bool, controllers: bool) -> ClusterDescription:
    if fenced and not await knows_fenced(client):
        text = "Attempted to write a non-default includeFencedBrokers at version 1"
        raise execution(JavaError(_UNSUPPORTED, text))
    return await describe_cluster(client, fenced=fenced, controllers=controllers)


def _print_id(values: Mapping[str, Any], command_config: str | None, face: Face) -> None:
    found = call(face, values, command_config, "listNodes", _described, False, _asks_controllers(values))
    if found.cluster_id is None:
        face.print("No cluster ID found. The Kafka version is probably too old.")
    else:
        face.print(f"Cluster ID: {found.cluster_id}")


def _asks_controllers(values: Mapping[str, Any]) -> bool:
    return values["bootstrap_controller"] is not None


def _unregister(values: Mapping[str, Any], command_config: str | None, face: Face) -> None:
    try:
        call(face, values, command_config, "unregisterBroker", unregister_broker, values["id"])
    except JavaError as error:
        if error.cause is None or error.cause.java_class != _UNSUPPORTED:
            raise
        face.print("The target cluster does not support the broker unregistration API.")
        return
    face.print(f"Broker {values['id']} is no longer registered.")


def _list_endpoints(values: Mapping[str, Any], command_config: str | None, face: Face) -> None:
    fenced, controllers = values["include_fenced_brokers"], _asks_controllers(values)
    if fenced and controllers:
        raise illegal_argument("The option --include-fenced-brokers is only supported with --bootstrap-server option")
    try:
        found = call(face, values, command_config, "listNodes", _described, fenced, controllers).brokers
    except JavaError as error:
        if error.cause is None or error.cause.java_class != _UNSUPPORTED:
            raise
        face.print(str(error.cause.message))
        return
    host = max((len(each.host) for each in found), default=100)
    rack = max((len(each.rack) for each in found if each.rack is not None), default=10)
    state = "" if controllers else f"{'STATE':<10} "
    face.print(f"{'ID':<10} {'HOST':<{host}} {'PORT':<10} {'RACK':<{rack}} {state}{'ENDPOINT_TYPE':<15}")
    for each in (found[position] for position in hash_order(each.id for each in found)):
        state = "" if controllers else f"{'fenced' if each.is_fenced else 'unfenced':<10} "
        where = f"{each.id:<10} {each.host:<{host}} {each.port:<10} {each.rack or 'null':<{rack}}"
        face.print(f"{where} {state}{'controller' if controllers else 'broker':<15}")


_WORK: Final = {"cluster-id": _print_id, "unregister": _unregister, "list-endpoints": _list_endpoints}
