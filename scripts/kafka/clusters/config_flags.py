"""The flags of kafka-configs, and their checks before the first request.

Must not know a cluster. Counterpart: kafka.admin.ConfigCommand.ConfigCommandOptions.
"""

import re
import socket
from collections.abc import Sequence
from pathlib import Path
from typing import Final

from ottla.client.config import raw_properties
from ottla.scripts.kafka.clusters.quota_configs import CLIENTS, IPS, USERS
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
from ottla.scripts.kafka.java.hashes import by_scala_set, by_string_hash
from ottla.scripts.kafka.java.numbers import INTEGER

TOPICS: Final = "topics"
BROKERS: Final = "brokers"
LOGGERS: Final = "broker-loggers"
CLIENT_METRICS: Final = "client-metrics"
GROUPS: Final = "groups"
_TYPES: Final = (TOPICS, CLIENTS, USERS, BROKERS, IPS, CLIENT_METRICS, GROUPS, LOGGERS)
_TYPES_3_9: Final = (TOPICS, CLIENTS, USERS, BROKERS, IPS, LOGGERS, CLIENT_METRICS)
_ZOOKEEPER_TYPES: Final = (USERS, BROKERS)
_WITH_DEFAULTS: Final = (USERS, CLIENTS, BROKERS, IPS)
_ENTITY_FLAGS: Final = {
    "topic": TOPICS,
    "client": CLIENTS,
    "user": USERS,
    "broker": BROKERS,
    "broker-logger": LOGGERS,
    "ip": IPS,
    "client-metrics": CLIENT_METRICS,
    "group": GROUPS,
}
_DEFAULTS_FLAGS: Final = {
    "client-defaults": CLIENTS,
    "user-defaults": USERS,
    "broker-defaults": BROKERS,
    "ip-defaults": IPS,
}
_FLAGS: Final[Sequence[Flag]] = (
    HELP,
    VERSION,
    flag("bootstrap-server", argument="server to connect to", help="The brokers to ask."),
    flag("bootstrap-controller", argument="controller to connect to", help="The controllers to ask."),
    flag("command-config", argument="command config property file", help="A file of client properties."),
    flag("alter", help="Change configs."),
    flag("describe", help="Print configs."),
    flag("all", help="Print all configs, not only those that were set."),
    flag("entity-type", argument="String", help="topics, clients, users, brokers and so on."),
    flag("entity-name", argument="String", help="The name of a topic, client, user, broker and so on."),
    flag("entity-default", help="The defaults of clients, users, brokers or addresses."),
    flag("add-config", argument="String", help="Configs to set: k1=v1,k2=[v1,v2]."),
    flag("add-config-file", argument="String", help="A properties file of configs to set."),
    flag("delete-config", argument="String", help="Configs to unset: k1,k2.", separator=","),
    flag("topic", argument="String", help="A topic."),
    flag("client", argument="String", help="A client id."),
    flag("client-defaults", help="The defaults of all clients."),
    flag("user", argument="String", help="A user."),
    flag("user-defaults", help="The defaults of all users."),
    flag("broker", argument="String", help="A broker's id."),
    flag("broker-defaults", help="The defaults of all brokers."),
    flag("broker-logger", argument="String", help="The id of a broker whose loggers are meant."),
    flag("ip-defaults", help="The defaults of all addresses."),
    flag("ip", argument="String", help="An address."),
)
_NEWER_FLAGS: Final[Sequence[Flag]] = (
    *_FLAGS,
    flag("group", argument="String", help="A group."),
    flag("client-metrics", argument="String", help="The name of a subscription to client metrics."),
)
_OLDER_FLAGS: Final[Sequence[Flag]] = (
    *_FLAGS,
    flag("zookeeper", argument="urls", help="Not supported: name the brokers by --bootstrap-server."),
    flag("zk-tls-config-file", argument="ZooKeeper TLS configuration", help="Not supported."),
    flag("force", help="Has no effect."),
)
_OUTSIDE_BRACKETS: Final = r"(?=[^\]]*(?:\[|$))"


def parsed_flags(arguments: Sequence[str], face: Face) -> Parsed:
    """Return a parsed and checked command line. JavaError or ToolExit for one that the tool refuses."""
    flags = _OLDER_FLAGS if face.is_3_9 else _NEWER_FLAGS
    parsed = parse(flags, arguments)
    about = "This tool helps to manipulate and describe entity config for a topic, client, user, broker, ip"
    about += " or client-metrics" if face.is_3_9 else ", client-metrics or group"
    maybe_print_help_or_version(face, flags, parsed, arguments, about)
    if parsed.has("alter") == parsed.has("describe"):
        message = "Command must include exactly one action: --describe, --alter"
        raise print_usage_and_exit(face, flags, message)
    check_invalid(face, flags, parsed, "describe", ("add-config", "delete-config"))
    _check_types(parsed, face)
    _check_names(parsed)
    if parsed.has("describe"):
        _check_describe(parsed, face)
    else:
        _check_alter(parsed, face)
    return parsed


def entity_types(parsed: Parsed) -> list[str]:
    """Return the types of the flags, in either spelling."""
    of_flags = {**_ENTITY_FLAGS, **_DEFAULTS_FLAGS}
    given = [kind for name, kind in of_flags.items() if parsed.knows(name) and parsed.has(name)]
    return [*parsed.values("entity-type"), *given]


def entity_names(parsed: Parsed) -> list[str]:
    """Return the names of the flags, in either spelling; an empty one is the default of its type."""
    names = iter(parsed.values("entity-name"))
    found = [
        next(names) if each == "entity-name" else ""
        for each in parsed.given
        if each in ("entity-name", "entity-default")
    ]
    found += [parsed.value(name) for name in _ENTITY_FLAGS if parsed.knows(name) and parsed.has(name)]
    return found + ["" for name in _DEFAULTS_FLAGS if parsed.has(name)]


def _check_types(parsed: Parsed, face: Face) -> None:
    types = entity_types(parsed)
    twice = [each for at, each in enumerate(types) if each in types[:at]]
    if twice:
        raise illegal_argument(f"Duplicate entity type(s) specified: {','.join(twice)}")
    servers = sum(parsed.has(each) for each in ("bootstrap-server", "bootstrap-controller"))
    allowed: Sequence[str] = _TYPES
    how = "--bootstrap-server or --bootstrap-controller"
    if face.is_3_9:
        allowed, how = (_TYPES_3_9, how) if servers else (_ZOOKEEPER_TYPES, "--zookeeper")
    elif not servers:
        raise illegal_argument("Either --bootstrap-server or --bootstrap-controller must be specified.")
    for each in types:
        if each not in allowed:
            one_of = ", ".join(allowed)
            raise illegal_argument(
                f"Invalid entity type {each}, the entity type must be one of {one_of} with a {how} argument"
            )
    if not types:
        raise illegal_argument("At least one entity type must be specified")
    if len(types) > 1 and set(types) != {USERS, CLIENTS}:
        raise illegal_argument(f"Only '{USERS}' and '{CLIENTS}' entity types may be specified together")
    short = [name for name in (*_ENTITY_FLAGS, *_DEFAULTS_FLAGS) if parsed.knows(name) and parsed.has(name)]
    if short and any(parsed.has(each) for each in ("entity-name", "entity-type", "entity-default")):
        raise illegal_argument(
            "--entity-{type,name,default} should not be used in conjunction with specific entity flags"
        )
    _check_servers(parsed, face, servers)


def _check_servers(parsed: Parsed, face: Face, servers: int) -> None:
    if not face.is_3_9:
        if servers > 1:
            raise illegal_argument("Only one of --bootstrap-server or --bootstrap-controller can be specified")
        return
    ways = servers + parsed.has("zookeeper")
    if ways == 0:
        raise illegal_argument(
            "One of the required --bootstrap-server, --boostrap-controller, or --zookeeper arguments must be specified"
        )
    if ways > 1:
        raise illegal_argument(
            "Only one of --bootstrap-server, --boostrap-controller, and --zookeeper can be specified"
        )
    if parsed.has("all") and parsed.has("zookeeper"):
        raise illegal_argument("--bootstrap-server must be specified for --all")
    if parsed.has("zk-tls-config-file") and not parsed.has("zookeeper"):
        raise illegal_argument("Only the --zookeeper option can be used with the --zk-tls-config-file option.")


def _check_names(parsed: Parsed) -> None:
    types = entity_types(parsed)
    if not any(entity_names(parsed)):
        return

    def given(*names: str) -> list[str]:
        return [parsed.value(name) for name in names if parsed.has(name)]

    if BROKERS in types or LOGGERS in types:
        for each in given("entity-name", "broker", "broker-logger"):
            if not is_broker_id(each):
                raise illegal_argument(
                    f"The entity name for {types[0]} must be a valid integer broker id, but it is: {each}"
                )
    if IPS in types:
        for each in given("entity-name", "ip"):
            try:
                socket.getaddrinfo(each, None)
            except OSError:
                raise illegal_argument(
                    f"The entity name for {types[0]} must be a valid IP or resolvable host, but it is: {each}"
                ) from None


def is_broker_id(text: str) -> bool:
    """Whether the text is a number."""
    try:
        INTEGER.convert(text)
    except ValueError:
        return False
    return True


def _check_describe(parsed: Parsed, face: Face) -> None:
    types = entity_types(parsed)
    if not face.is_3_9 and parsed.has("entity-default") and not set(types) & set(_WITH_DEFAULTS):
        raise illegal_argument(f"--entity-default must not be specified with --describe of {','.join(types)}")
    if LOGGERS in types and not any(entity_names(parsed)):
        article = "an" if face.is_3_9 else "An"
        raise illegal_argument(f"{article} entity name must be specified with --describe of {','.join(types)}")


def _check_alter(parsed: Parsed, face: Face) -> None:
    types, names = entity_types(parsed), entity_names(parsed)
    article = "an" if face.is_3_9 else "An"
    if set(types) & set(_WITH_DEFAULTS):
        if not names:
            raise illegal_argument(
                f"{article} entity-name or default entity must be specified with --alter of users, clients, brokers "
                "or ips"
            )
    elif not any(names):
        raise illegal_argument(f"{article} entity name must be specified with --alter of {','.join(types)}")
    if parsed.has("add-config") and parsed.has("add-config-file"):
        raise illegal_argument("Only one of --add-config or --add-config-file must be specified")
    if not any(parsed.has(each) for each in ("add-config", "add-config-file", "delete-config")):
        raise illegal_argument(
            "At least one of --add-config, --add-config-file, or --delete-config must be specified with --alter"
        )


def added(parsed: Parsed, face: Face) -> dict[str, str]:
    """Return the configs to set, in the tool's order."""
    found: dict[str, str] = {}
    if parsed.has("add-config-file"):
        file = parsed.value("add-config-file")
        try:
            found |= raw_properties(Path(file))
        except OSError:
            raise JavaError("java.nio.file.NoSuchFileException", file) from None
    if parsed.has("add-config"):
        texts = re.split("," + _OUTSIDE_BRACKETS, parsed.value("add-config"))
        while len(texts) > 1 and not texts[-1]:
            texts.pop()
        pairs = [re.split(r"\s*=\s*" + _OUTSIDE_BRACKETS, text) for text in texts]
        if any(len(pair) != 2 for pair in pairs):
            how = '"key=val"' if face.is_3_9 else '"key=val" or  "key=[val1,val2]" to group values which contain commas'
            raise illegal_argument(
                f"requirement failed: Invalid entity config: all configs to be added must be in the format {how}."
            )
        found |= {key.strip(): re.sub(r"[\[\]]", "", value).strip() for key, value in pairs}
    if face.is_3_9 and "message.format.version" in found:
        face.print(
            f"WARNING: The configuration message.format.version={found['message.format.version']} is specified. This "
            "configuration will be ignored if the version is newer than the inter.broker.protocol.version specified in "
            "the broker or if the inter.broker.protocol.version is 3.0 or newer. This configuration is deprecated and "
            "it will be removed in Apache Kafka 4.0."
        )
    ordered = {key: found[key] for key in by_string_hash(found)}
    letters = r"[a-zA-Z0-9._-]*" if face.is_3_9 else r"[$a-zA-Z0-9._-]*"
    for key in ordered:
        if not re.fullmatch(letters, key):
            raise illegal_argument(f"Invalid character found for config key: {key}")
    return {key: ordered[key] for key in by_scala_set(ordered)}
