"""kafka-client-metrics: the subscriptions by which brokers request metrics from clients.

Counterpart: org.apache.kafka.tools.ClientMetricsCommand.
"""

from collections.abc import Sequence
from typing import Final
from uuid import uuid4

from ottla.client.admin.configs import (
    Change,
    ConfigEntry,
    Operation,
    Resource,
    ResourceType,
    alter_configs,
    describe_configs,
    list_config_resources,
)
from ottla.client.cluster import Client
from ottla.scripts.kafka.calls import asked, command_config, first_error, opened
from ottla.scripts.kafka.face import Face, JavaError, illegal_argument
from ottla.scripts.kafka.flags import (
    HELP,
    VERSION,
    Flag,
    Parsed,
    check_invalid,
    flag,
    maybe_print_help_or_version,
    parse,
    print_usage_and_exit,
)
from ottla.scripts.kafka.java.hashes import by_string_hash
from ottla.scripts.kafka.java.numbers import INTEGER
from ottla.wire.uuids import uuid_text

_ABOUT: Final = "This tool helps to manipulate and describe client metrics configurations."
_ACTIONS: Final = ("alter", "delete", "describe", "list")
_CHANGES: Final = ("generate-name", "interval", "match", "metrics")
_FLAGS: Final[Sequence[Flag]] = (
    HELP,
    VERSION,
    flag("bootstrap-server", argument="server to connect to", help="The brokers to ask (required)."),
    flag("command-config", argument="command config property file", help="A file of client properties."),
    flag("alter", help="Change a subscription, or make it."),
    flag("delete", help="Delete a subscription."),
    flag("describe", help="Print subscriptions."),
    flag("list", help="Print the names of subscriptions."),
    flag("name", argument="name", help="The name of a subscription."),
    flag("generate-name", help="Make a name up."),
    flag("interval", argument="push interval", help="Milliseconds between two pushes."),
    flag("match", argument="k1=v1,k2=v2", help="Which clients push: regular expressions.", separator=","),
    flag("metrics", argument="m1,m2", help="How the names of the metrics begin.", separator=","),
)


def main(arguments: Sequence[str], face: Face) -> int:
    """Run the tool."""
    try:
        parsed = _parsed(arguments, face)
        command_config(parsed)
    except JavaError as error:
        face.complain(str(error.message))
        face.complain_trace(error)
        return 1
    work = {"alter": _alter, "delete": _delete, "describe": _describe, "list": _list}
    try:
        opened(face, parsed, work[next(each for each in _ACTIONS if parsed.has(each))], parsed, face)
    except JavaError as error:
        shown = error.cause if error.cause and error.java_class.endswith(".ExecutionException") else error
        face.print(f"Error while executing client metrics command : {shown.message or 'null'}")
        return 1
    return 0


def _parsed(arguments: Sequence[str], face: Face) -> Parsed:
    try:
        parsed = parse(_FLAGS, arguments)
    except JavaError as error:
        if face.is_3_9:
            raise
        raise print_usage_and_exit(face, _FLAGS, str(error.message)) from None
    maybe_print_help_or_version(face, _FLAGS, parsed, arguments, _ABOUT)
    if sum(parsed.has(each) for each in _ACTIONS) != 1:
        message = "Command must include exactly one action: --alter, --delete, --describe or --list."
        raise print_usage_and_exit(face, _FLAGS, message)
    if not parsed.has("bootstrap-server"):
        raise illegal_argument("--bootstrap-server must be specified.")
    check_invalid(face, _FLAGS, parsed, "delete", _CHANGES)
    check_invalid(face, _FLAGS, parsed, "describe", _CHANGES)
    check_invalid(face, _FLAGS, parsed, "list", ("name", *_CHANGES))
    if parsed.has("alter"):
        if parsed.has("name") == parsed.has("generate-name"):
            raise illegal_argument("One of --name or --generate-name must be specified with --alter.")
        _check_interval(parsed)
    if parsed.has("delete") and not parsed.has("name"):
        raise illegal_argument("A client metrics resource name must be specified with --delete.")
    return parsed


def _check_interval(parsed: Parsed) -> None:
    try:
        INTEGER.convert(parsed.value("interval") or "0")
    except ValueError:
        raise illegal_argument("Invalid interval value. Enter an integer, or leave empty to reset.") from None


async def _alter(client: Client, parsed: Parsed, face: Face) -> None:
    name = _random_name() if parsed.has("generate-name") else parsed.value("name")
    wanted = {}
    if parsed.has("interval"):
        wanted["interval.ms"] = parsed.value("interval")
    for key in ("metrics", "match"):
        if parsed.has(key):
            wanted[key] = ",".join(parsed.values(key))
    changes = [
        Change(key, Operation.SET if wanted[key] else Operation.DELETE, wanted[key]) for key in by_string_hash(wanted)
    ]
    await _change(client, name, changes)
    face.print(f"Altered client metrics config for {name}.")


def _random_name() -> str:
    """Return an id that does not begin with a hyphen, because it would look like a flag."""
    name = "-"
    while name.startswith("-"):
        name = uuid_text(uuid4().bytes)
    return name


async def _delete(client: Client, parsed: Parsed, face: Face) -> None:
    name = parsed.value("name")
    old = await _configs(client, name)
    await _change(client, name, [Change(each.name, Operation.DELETE, each.value) for each in old])
    face.print(f"Deleted client metrics config for {name}.")


async def _change(client: Client, name: str, changes: Sequence[Change]) -> None:
    resource = Resource(ResourceType.CLIENT_METRICS, name)
    first_error(await asked(client, "incrementalAlterConfigs", lambda: alter_configs(client, {resource: changes})))


async def _describe(client: Client, parsed: Parsed, face: Face) -> None:
    name = parsed.value("name")
    if face.is_3_9 and name is not None:
        names = [name]
    else:
        names = await subscriptions(client, face)
        if name is not None and name not in names:
            face.print(f"The client metric resource {name} doesn't exist and doesn't have dynamic config.")
            return
    for each in names if name is None else [name]:
        face.print(f"Client metrics configs for {each} are:")
        for entry in await _configs(client, each):
            face.print(f"  {entry.name}={'null' if entry.value is None else entry.value}")


async def _list(client: Client, parsed: Parsed, face: Face) -> None:
    face.print("\n".join(await subscriptions(client, face)))


async def subscriptions(client: Client, face: Face, seconds: float | None = 30.0) -> list[str]:
    """Return the names of all subscriptions, as the broker orders them."""
    call = "listClientMetricsResources" if face.is_3_9 else "listConfigResources"
    found = await asked(client, call, lambda: list_config_resources(client, ResourceType.CLIENT_METRICS), seconds)
    return [each.name for each in found]


async def _configs(client: Client, name: str) -> list[ConfigEntry]:
    resource = Resource(ResourceType.CLIENT_METRICS, name)
    results = await asked(client, "describeConfigs", lambda: describe_configs(client, [resource]))
    first_error(results)
    found = results[resource]
    assert isinstance(found, list)
    by_name = {each.name: each for each in found}
    return [by_name[each] for each in by_string_hash(by_name)]
