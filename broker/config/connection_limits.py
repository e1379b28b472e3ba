"""Limits: how many connections a broker accepts, how fast, and how much memory their requests may use.

Owns these keys and their reading, for the broker and for each listener. Must not count anything, open a socket or ask a
name server. Counterparts in Kafka: SocketServerConfigs and the connection quotas of KafkaConfig.
"""

import re
from collections.abc import Iterable, Mapping
from types import MappingProxyType
from typing import Any, Final, NamedTuple

from ottla.wire.config_def import ConfigDef, ConfigError, ConfigKey, ConfigType, Importance, at_least, parse_type

UNLIMITED: Final = 2**31 - 1
_HOST: Final = re.compile(r"[0-9a-zA-Z\-%._:]*")
OVERRIDES: Final = "max.connections.per.ip.overrides"

CONNECTION_CONFIG = ConfigDef(
    [
        ConfigKey(
            "max.connections",
            ConfigType.INT,
            UNLIMITED,
            at_least(0),
            doc="The most connections at a time. A further one waits until another ends, but one to the inter-broker "
            "listener closes the least recently used one of another listener. `listener.name.<name>.max.connections` "
            "limits one listener.",
            dynamic="cluster-wide",
        ),
        ConfigKey(
            "max.connections.per.ip",
            ConfigType.INT,
            UNLIMITED,
            at_least(0),
            doc="The most connections at a time from one address; further ones are closed.",
            dynamic="cluster-wide",
        ),
        ConfigKey(
            OVERRIDES,
            ConfigType.STRING,
            "",
            doc="`max.connections.per.ip` of single addresses or host names, as HOST:NUMBER pairs.",
            dynamic="cluster-wide",
        ),
        ConfigKey(
            "max.connection.creation.rate",
            ConfigType.INT,
            UNLIMITED,
            at_least(0),
            doc="How many connections are accepted in a second; further ones wait. "
            "`listener.name.<name>.max.connection.creation.rate` limits one listener, and is the only limit of the "
            "inter-broker listener.",
            dynamic="cluster-wide",
        ),
        ConfigKey(
            "queued.max.request.bytes",
            ConfigType.LONG,
            -1,
            doc="Memory for all requests that have begun to arrive and are not done. While it is used up, only the "
            "beginning of a further request is read. 0 or less: no limit.",
        ),
        ConfigKey(
            "quota.window.num",
            ConfigType.INT,
            11,
            at_least(1),
            doc="The number of windows over which a rate is measured.",
            importance=Importance.LOW,
        ),
        ConfigKey(
            "quota.window.size.seconds",
            ConfigType.INT,
            1,
            at_least(1),
            doc="The length of each window of `quota.window.num`.",
            importance=Importance.LOW,
        ),
    ]
)


class Limits(NamedTuple):
    """The limits of the broker, or of one listener."""

    connections: int = UNLIMITED
    creation_rate: int = UNLIMITED


class ConnectionLimits(NamedTuple):
    """All limits of connections. `per_ip_overrides` is by address or host name, `of_listener` by listener."""

    broker: Limits = Limits()
    of_listener: Mapping[str, Limits] = MappingProxyType({})
    per_ip: int = UNLIMITED
    per_ip_overrides: Mapping[str, int] = MappingProxyType({})
    inter_broker_listener: str = ""
    window_num: int = 11
    window_seconds: int = 1


def read_connection_limits(
    values: Mapping[str, Any], texts: Mapping[str, str], listeners: Iterable[str], inter_broker_listener: str
) -> ConnectionLimits:
    """Return the limits, those of listeners from `texts`; ConfigError if two keys contradict each other."""

    def of_listener(listener: str, name: str) -> int:
        text = texts.get(f"listener.name.{listener.lower()}.{name}")
        return int(values[name] if text is None else CONNECTION_CONFIG.parse(name, text))

    overrides = _overrides(values[OVERRIDES])
    if values["max.connections.per.ip"] == 0 and not overrides:
        raise ConfigError(f"max.connections.per.ip can be set to zero only if {OVERRIDES} property is set.")
    if 0 < values["queued.max.request.bytes"] < values["socket.request.max.bytes"]:
        raise ConfigError("queued.max.request.bytes must be larger or equal to socket.request.max.bytes")
    return ConnectionLimits(
        Limits(values["max.connections"], values["max.connection.creation.rate"]),
        {
            name: Limits(of_listener(name, "max.connections"), of_listener(name, "max.connection.creation.rate"))
            for name in listeners
        },
        values["max.connections.per.ip"],
        overrides,
        inter_broker_listener,
        values["quota.window.num"],
        values["quota.window.size.seconds"],
    )


def _overrides(text: str) -> dict[str, int]:
    found = {}
    for item in filter(None, (part.strip() for part in text.split(","))):
        host, colon, count = (part.strip() for part in item.rpartition(":"))
        if not colon:
            raise ConfigError(f"Error parsing configuration property '{OVERRIDES}': {item} is not HOST:NUMBER")
        found[host] = parse_type(OVERRIDES, count, ConfigType.INT)
    if invalid := [host for host in found if not _HOST.fullmatch(host)]:
        raise ConfigError(f"{OVERRIDES} contains invalid addresses : {','.join(invalid)}")
    return found
