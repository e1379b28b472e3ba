"""Where a broker listens and what it tells clients to connect to.

Owns the listener keys and their reading. It must not open a socket, nor know any other key.
Counterpart: SocketServerConfigs and the listener part of KafkaConfig.
"""

import ipaddress
import re
from collections import Counter
from collections.abc import Mapping, Sequence
from typing import NamedTuple

from ottla.wire.config_def import ConfigDef, ConfigError, ConfigKey, ConfigType, Importance

ENDPOINT = re.compile(r"(.*)://\[?([0-9a-zA-Z\-%._:]*)\]?:(-?[0-9]+)")
DEFAULT_PROTOCOL_MAP = "SASL_SSL:SASL_SSL,PLAINTEXT:PLAINTEXT,SSL:SSL,SASL_PLAINTEXT:SASL_PLAINTEXT"
PROTOCOLS = ("PLAINTEXT", "SSL", "SASL_PLAINTEXT", "SASL_SSL")

LISTENER_CONFIG = ConfigDef(
    [
        ConfigKey(
            "listeners",
            ConfigType.STRING,
            "PLAINTEXT://:9092",
            doc="Where the broker accepts connections: NAME://HOST:PORT, separated by commas. No host means every "
            "interface; port 0 lets the system choose one.",
            importance=Importance.HIGH,
        ),
        ConfigKey[str | None](
            "advertised.listeners",
            ConfigType.STRING,
            None,
            doc="What clients are told to connect to, where it differs from `listeners`.",
            importance=Importance.HIGH,
            dynamic="per-broker",
        ),
        ConfigKey(
            "listener.security.protocol.map",
            ConfigType.STRING,
            DEFAULT_PROTOCOL_MAP,
            doc="The security protocol of each listener name, as NAME:PROTOCOL pairs. Ottla serves PLAINTEXT only.",
            importance=Importance.LOW,
        ),
        ConfigKey[str | None](
            "inter.broker.listener.name",
            ConfigType.STRING,
            None,
            doc="The listener that other brokers use; the one named PLAINTEXT unless set.",
        ),
        ConfigKey[str | None](
            "controller.listener.names",
            ConfigType.STRING,
            None,
            doc="Listeners that belong to a KRaft controller. Ottla has none and does not open them, so that the "
            "configuration of a combined KRaft node can be used as it is.",
            importance=Importance.HIGH,
        ),
    ]
)


class Listener(NamedTuple):
    """One endpoint; an empty host means every interface."""

    name: str
    host: str
    port: int


class Listeners(NamedTuple):
    """All endpoints of a broker."""

    bound: tuple[Listener, ...]
    advertised: tuple[Listener, ...]
    inter_broker_name: str


def read_listeners(values: Mapping[str, str | None]) -> Listeners:
    """Read the listener keys' values and check them against each other, as Kafka does."""
    protocols = _protocol_map(values["listener.security.protocol.map"] or "")
    inter_broker_name = (values["inter.broker.listener.name"] or "PLAINTEXT").upper()
    of_controller = {name.strip().upper() for name in (values["controller.listener.names"] or "").split(",")}
    given = values["listeners"] or ""
    bound = tuple(each for each in _parse("listeners", given) if each.name not in of_controller)
    text = values["advertised.listeners"]
    advertised = tuple(each for each in _parse("advertised.listeners", text or given) if each.name not in of_controller)
    if not bound:
        raise ConfigError(f"listeners names no listener for clients: {given!r}")
    for listener in (*bound, *advertised):
        _check_protocol(listener, protocols)
    _check_ports(bound, given)
    names = [each.name for each in bound]
    if any(each.name not in names for each in advertised):
        raise ConfigError(
            "advertised.listeners listener names must be equal to or a subset of the ones defined in listeners. "
            f"Found {_names(advertised)}. The valid options based on the current configuration are {','.join(names)}"
        )
    if any(each.host == "0.0.0.0" for each in advertised):
        raise ConfigError(
            "advertised.listeners cannot use the nonroutable meta-address 0.0.0.0. Use a routable IP address."
        )
    if inter_broker_name not in {each.name for each in advertised}:
        raise ConfigError(
            "inter.broker.listener.name must be a listener name defined in advertised.listeners. "
            f"The valid options based on currently configured listeners are {_names(advertised)}"
        )
    return Listeners(bound, advertised, inter_broker_name)


def _names(listeners: Sequence[Listener]) -> str:
    return ",".join(each.name for each in listeners)


def _protocol_map(text: str) -> dict[str, str]:
    pairs = {}
    for item in filter(None, (part.strip() for part in text.split(","))):
        name, _, protocol = item.rpartition(":")
        if not name or protocol.upper() not in PROTOCOLS:
            raise ConfigError(
                f"Invalid security protocol {protocol!r} defined in listener.security.protocol.map: {item}"
            )
        pairs[name.upper()] = protocol.upper()
    return pairs


def _parse(key: str, text: str) -> list[Listener]:
    listeners = []
    for item in filter(None, (part.strip() for part in text.split(","))):
        match = ENDPOINT.fullmatch(item)
        if not match or not 0 <= int(match[3]) <= 65535:
            raise ConfigError(f"{key}: unable to parse {item!r} to a broker endpoint, which is NAME://HOST:PORT")
        listeners.append(Listener(match[1].upper(), match[2], int(match[3])))
    if len({each.name for each in listeners}) < len(listeners):
        raise ConfigError(f"{key}: each listener must have a different name: {text}")
    return listeners


def _check_protocol(listener: Listener, protocols: Mapping[str, str]) -> None:
    protocol = protocols.get(listener.name)
    if protocol is None:
        raise ConfigError(
            f"No security protocol defined for listener {listener.name} in listener.security.protocol.map"
        )
    if protocol != "PLAINTEXT":
        raise ConfigError(
            f"Listener {listener.name} asks for {protocol}: Ottla serves PLAINTEXT only, no TLS and no SASL"
        )


def _check_ports(listeners: Sequence[Listener], text: str) -> None:
    """Refuse a port that is named twice, unless once for IPv4 and once for IPv6."""
    for port, count in Counter(each.port for each in listeners if each.port).items():
        kinds = {_address_version(each.host) for each in listeners if each.port == port}
        if count > 1 and (count > 2 or kinds != {4, 6}):
            raise ConfigError(f"Each listener must have a different port, listeners: {text}")


def _address_version(host: str) -> int:
    try:
        return ipaddress.ip_address(host).version
    except ValueError:
        return 0
