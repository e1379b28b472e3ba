"""The addresses where a broker listens, and those that it advertises to clients.

Owns the listener keys and their reading. Must not open a socket, nor know any other key.
Counterparts in Kafka: SocketServerConfigs and the listener part of KafkaConfig.
"""

import ipaddress
import re
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from typing import NamedTuple

from ottla.wire.config_def import ConfigDef, ConfigError, ConfigKey, ConfigType, Importance, OneOf

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
            doc="Where clients connect to, if that differs from `listeners`.",
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
            doc="The listener that other brokers use. Unset: the one that `security.inter.broker.protocol` names.",
        ),
        ConfigKey(
            "security.inter.broker.protocol",
            ConfigType.STRING,
            "PLAINTEXT",
            OneOf(*PROTOCOLS),
            doc="The protocol between brokers, which use the listener of that name.",
        ),
        ConfigKey[str | None](
            "control.plane.listener.name",
            ConfigType.STRING,
            None,
            doc="The listener of other brokers that the controller uses. Unset: the inter-broker listener. It is "
            "opened like any other.",
            importance=Importance.HIGH,
        ),
        ConfigKey[str | None](
            "controller.listener.names",
            ConfigType.STRING,
            None,
            doc="Listeners of a KRaft controller. Ottla has none and does not open them, so that the configuration of "
            "a combined KRaft node can be used as it is.",
            importance=Importance.HIGH,
        ),
    ]
)


class Listener(NamedTuple):
    """One endpoint; an empty host means every interface."""

    name: str
    host: str
    port: int


class Address(NamedTuple):
    """The host and port of the only listener. A part that is None comes from the listener keys."""

    host: str | None = None
    port: int | None = None


class Listeners(NamedTuple):
    """All endpoints of a broker."""

    bound: tuple[Listener, ...]
    advertised: tuple[Listener, ...]
    inter_broker_name: str


def read_listeners(values: Mapping[str, str | None], texts: Mapping[str, str]) -> Listeners:
    """Return all endpoints; ConfigError as in Kafka if two keys contradict each other. `texts` are the keys set."""
    is_kraft = bool(texts.get("process.roles", "").strip())
    of_controller = [name.upper() for name in _items(values["controller.listener.names"])]
    protocols = _protocol_map(values["listener.security.protocol.map"])
    if is_kraft and "listener.security.protocol.map" not in texts:
        protocols = dict.fromkeys(of_controller, "PLAINTEXT") | protocols
    inter_broker_name = _inter_broker_name(values, texts, protocols)
    given, to_advertise = values["listeners"] or "", values["advertised.listeners"]
    listeners = _parse(given, protocols)
    _check_ports(listeners, given)
    advertised = listeners if to_advertise is None else _parse(to_advertise, protocols)
    _check_controllers(of_controller, listeners, is_kraft)
    bound = tuple(each for each in listeners if each.name not in of_controller)
    for listener in bound:
        _check_protocol(listener.name, protocols[listener.name])
    advertised = [each for each in advertised if each.name not in of_controller]
    _check_advertised(advertised, [each.name for each in listeners], inter_broker_name, is_kraft)
    _check_control_plane(values["control.plane.listener.name"], protocols, advertised, inter_broker_name, is_kraft)
    return Listeners(bound, tuple(advertised), inter_broker_name)


def with_address(text: str, address: Address) -> str:
    """Return `listeners` with its only listener at another address; ConfigError if there are several."""
    items = _items(text)
    if len(items) != 1 or not (match := ENDPOINT.fullmatch(items[0])):
        raise ConfigError(f"a host or port for one listener does not fit listeners={text}: set listeners itself")
    host = match[2] if address.host is None else address.host
    port = match[3] if address.port is None else address.port
    return f"{match[1]}://[{host}]:{port}" if ":" in host else f"{match[1]}://{host}:{port}"


def _items(text: str | None) -> list[str]:
    return [item for part in (text or "").split(",") if (item := part.strip())]


def _names(listeners: Iterable[Listener]) -> str:
    return ",".join(each.name for each in listeners)


def _protocol_map(text: str | None) -> dict[str, str]:
    key = "listener.security.protocol.map"
    pairs = {}
    for item in _items(text):
        name, colon, protocol = (part.strip().upper() for part in item.rpartition(":"))
        if not colon:
            raise ConfigError(f"Error parsing configuration property '{key}': {item} is not NAME:PROTOCOL")
        if protocol not in PROTOCOLS:
            raise ConfigError(f"Invalid security protocol `{item.rpartition(':')[2].strip()}` defined in {key}")
        pairs[name] = protocol
    return pairs


def _inter_broker_name(values: Mapping[str, str | None], texts: Mapping[str, str], protocols: Mapping[str, str]) -> str:
    name = values["inter.broker.listener.name"]
    if name is None:
        return values["security.inter.broker.protocol"] or ""
    if "security.inter.broker.protocol" in texts:
        raise ConfigError("Only one of inter.broker.listener.name and security.inter.broker.protocol should be set.")
    if name.upper() not in protocols:
        raise ConfigError(
            f"Listener with name {name.upper()} defined in inter.broker.listener.name not found in "
            "listener.security.protocol.map."
        )
    return name.upper()


def _parse(text: str, protocols: Mapping[str, str]) -> list[Listener]:
    """Return endpoints; ConfigError if one has no protocol, or two have the same name."""
    listeners = []
    for item in _items(text):
        fault = None
        if not (match := ENDPOINT.fullmatch(item)):
            fault = f"Unable to parse {item} to a broker endpoint"
        elif (name := match[1].upper()) not in protocols:
            fault = f"No security protocol defined for listener {name}"
        elif not 0 <= int(match[3][:9]) <= 65535:
            fault = f"port out of range:{match[3]}"
        else:
            listeners.append(Listener(name, match[2], int(match[3])))
        if fault is not None:
            raise ConfigError(f"Error creating broker listeners from '{text}': {fault}")
    if len({each.name for each in listeners}) < len(listeners):
        raise ConfigError(f"Each listener must have a different name, listeners: {text}")
    return listeners


def _check_protocol(name: str, protocol: str) -> None:
    if protocol != "PLAINTEXT":
        asks = "asks" if name == protocol else "asks by listener.security.protocol.map"
        raise ConfigError(f"listeners: {name} {asks} for {protocol}; Ottla serves PLAINTEXT only, no TLS and no SASL")


def _check_ports(listeners: Sequence[Listener], text: str) -> None:
    """Raise ConfigError for a port of two listeners, unless one is for IPv4 and the other for IPv6."""
    for port, count in Counter(each.port for each in listeners if each.port).items():
        if count == 1:
            continue
        versions = [_address_version(each.host) for each in listeners if each.port == port]
        addresses = [version for version in versions if version]
        different = "Each listener must have a different port"
        if count - len(addresses) > 1:
            raise ConfigError(f"{different}, listeners: {text}")
        if len(addresses) != 2:
            raise ConfigError(
                f"{different} unless exactly one listener has an IPv4 address and the other IPv6 address, "
                f"listeners: {text}, port: {port}"
            )
        if set(addresses) != {4, 6} or count > 2:
            raise ConfigError(
                "If you have two listeners on the same port then one needs to be IPv4 and the other IPv6, "
                f"listeners: {text}, port: {port}"
            )


def _address_version(host: str) -> int:
    try:
        return ipaddress.ip_address(host).version
    except ValueError:
        return 0


def _check_controllers(names: Sequence[str], listeners: Sequence[Listener], is_kraft: bool) -> None:
    key, known = "controller.listener.names", {each.name for each in listeners}
    if not is_kraft and names:
        raise ConfigError(f"{key} must be empty when not running in KRaft mode: [{', '.join(names)}]")
    where = "appearing in the 'listeners' configuration when running the KRaft controller role"
    if is_kraft and not known.intersection(names):
        raise ConfigError(f"{key} must contain at least one value {where}")
    if not known.issuperset(names):
        raise ConfigError(f"{key} must only contain values {where}")


def _check_advertised(
    advertised: Sequence[Listener], names: Sequence[str], inter_broker_name: str, is_kraft: bool
) -> None:
    if not advertised:
        perhaps = " Perhaps all listeners appear in controller.listener.names?" if is_kraft else ""
        raise ConfigError(f"There must be at least one broker advertised listener.{perhaps}")
    if inter_broker_name not in {each.name for each in advertised}:
        raise ConfigError(
            "inter.broker.listener.name must be a listener name defined in advertised.listeners. "
            f"The valid options based on currently configured listeners are {_names(advertised)}"
        )
    if not {each.name for each in advertised}.issubset(names):
        raise ConfigError(
            "advertised.listeners listener names must be equal to or a subset of the ones defined in listeners. "
            f"Found {_names(advertised)}. The valid options based on the current configuration are {','.join(names)}"
        )
    if any(each.host == "0.0.0.0" for each in advertised):
        raise ConfigError(
            "advertised.listeners cannot use the nonroutable meta-address 0.0.0.0. Use a routable IP address."
        )


def _check_control_plane(
    name: str | None,
    protocols: Mapping[str, str],
    advertised: Sequence[Listener],
    inter_broker_name: str,
    is_kraft: bool,
) -> None:
    if name is None:
        return
    key, name = "control.plane.listener.name", name.upper()
    if name not in protocols:
        raise ConfigError(f"Listener with {name} defined in {key} not found in listener.security.protocol.map.")
    if is_kraft:
        raise ConfigError(f"{key} is not supported in KRaft mode.")
    if name not in {each.name for each in advertised}:
        raise ConfigError(
            f"{key} must be a listener name defined in advertised.listeners. "
            f"The valid options based on currently configured listeners are {_names(advertised)}"
        )
    if name == inter_broker_name:
        raise ConfigError(
            f"{key}, when defined, should have a different value from the inter broker listener name. "
            f"Currently they both have the value {name}"
        )
