"""The configuration of a broker as it may change while the broker runs.

Owns what is set for this broker and for all brokers over what its file says, which of it can stand, the values in
force, and who is told of changes. Must not know where any of it is kept. Counterpart in Kafka: DynamicBrokerConfig.

What is set for this broker counts first, then what is set for all, then the file (and what stood in for it at start),
then the default. Keys of one meaning and several units count as one: whichever level sets any of them sets them all.
"""

import logging
import re
from collections.abc import Awaitable, Callable, Collection, Iterable, Mapping
from types import MappingProxyType
from typing import Any, Final

from ottla.broker.config.broker_config import BROKER_CONFIG, BrokerConfig
from ottla.broker.config.ignored_keys import check_refused, is_refused, without_effect
from ottla.broker.config.throttle import THROTTLE_CONFIG
from ottla.log.config import LogConfig
from ottla.wire.config_def import ConfigDef, ConfigError, ConfigKey, invalid_value

logger = logging.getLogger("kafka.server.DynamicBrokerConfig")

# Keys that no file can set.
_NEVER_STATIC: Final = THROTTLE_CONFIG

CHANGEABLE: Final = ConfigDef(
    [*(key for key in BROKER_CONFIG.values() if key.dynamic != "read-only"), *_NEVER_STATIC.values()]
)
"""Every key that a running broker takes."""

_NONE: Final[Mapping[str, str]] = MappingProxyType({})
_LISTENER_KEY: Final = re.compile(r"listener\.name\.[^.]*\.(.*)")
# Keys of one meaning and several units; the first that is set counts.
_FAMILIES: Final = (
    ("log.roll.ms", "log.roll.hours"),
    ("log.roll.jitter.ms", "log.roll.jitter.hours"),
    ("log.retention.ms", "log.retention.minutes", "log.retention.hours"),
)
_FLUSH_INTERVALS: Final = ("log.flush.interval.ms", "log.flush.scheduler.interval.ms")
# Kafka takes these for single listeners, and for nothing else.
_PER_LISTENER: Final = re.compile(
    r"ssl\.(keystore\.(type|location|password|certificate\.chain|key)|key\.password"
    r"|truststore\.(type|location|password|certificates))"
)
# Of a listener's own keys those that may be set for all brokers.
_CLUSTER_WIDE_OF_LISTENER: Final = ("max.connections", "max.connection.creation.rate", "num.network.threads")
_THREADS: Final = (
    "background.threads",
    "num.io.threads",
    "num.network.threads",
    "num.recovery.threads.per.data.dir",
    "num.replica.fetchers",
)

Changed = Callable[[BrokerConfig], Awaitable[None]]


class DynamicConfig:
    """The values in force at one broker, and what they come from."""

    def __init__(self, static: BrokerConfig) -> None:
        self.static = static
        self.current = static
        self.log_defaults = LogConfig.from_broker(static.values)
        self.own: Mapping[str, str] = _NONE
        self.default: Mapping[str, str] = _NONE
        self._subscribers: list[tuple[frozenset[str], Changed]] = []

    def subscribe(self, names: Iterable[str], changed: Changed) -> None:
        """Have `changed` called with the new configuration whenever one of these keys has another value.

        A key counts as well where it is set for a single listener.
        Whoever changed it is answered when that has returned.
        """
        self._subscribers.append((frozenset(names), changed))

    def usable(self, stored: Mapping[str, str], *, per_broker: bool) -> dict[str, str]:
        """Return what of a level can stand, by itself; whoever wrote the rest, no broker stops over it."""
        found = {}
        for name, text in stored.items():
            try:
                check_refused(name, text)
                _check_texts({name: text}, per_broker=per_broker)
                found[name] = text
            except ConfigError as error:
                logger.error("ignored as a dynamic config of %s: %s", _level(per_broker), error)
        return found

    def check(self, wanted: Mapping[str, str], *, per_broker: bool) -> None:
        """Raise ConfigError, in Kafka's words, if a level cannot be changed to this."""
        _check_texts(wanted, per_broker=per_broker)
        levels = (self.default, wanted) if per_broker else (wanted, self.own)
        new = BrokerConfig(_over(self.static.texts, *levels))
        try:
            _check_change(self.current.values, new.values)
        except ConfigError as error:
            # How Kafka wraps what its parts refuse.
            cause = f"org.apache.kafka.common.config.ConfigException: {error}"
            raise ConfigError(f"Invalid value {cause} for configuration Invalid dynamic configuration") from error

    def never_static(self, name: str) -> int:
        """Return the value in force of a key that no file can set."""
        text = self.own.get(name, self.default.get(name))
        key: ConfigKey[int] = _NEVER_STATIC[name]
        return key.default if text is None else key.parse(text)

    async def update(self, default: Mapping[str, str], own: Mapping[str, str]) -> None:
        """Take both levels as they are kept now; returns when what has changed is in effect."""
        default, own = self.usable(default, per_broker=False), self.usable(own, per_broker=True)
        try:
            new = BrokerConfig(_over(self.static.texts, default, own))
        except ConfigError as error:
            logger.error("the dynamic configs cannot be used together and are not: %s", error)
            return
        old, self.current, self.default, self.own = self.current, new, default, own
        changed = _differences(old.values, new.values) | _differences(old.texts, new.texts)
        if not changed:
            return
        logger.info("changed configs: %s", ", ".join(sorted(changed)))
        self.log_defaults = LogConfig.from_broker(new.values)
        bases = {_base(name) for name in changed}
        for names, tell in self._subscribers:
            if not names.isdisjoint(bases):
                try:
                    await tell(new)
                except Exception:
                    logger.exception("A bug: changed configs could not be used")


def key_of(name: str) -> ConfigKey[Any] | None:
    """Return the key of a name, also of one that is set for a single listener; None for one that nobody knows."""
    known = BROKER_CONFIG.get(name) or _NEVER_STATIC.get(name)
    return known or BROKER_CONFIG.get(_base(name))


def synonyms_of(name: str) -> tuple[str, ...]:
    """Return the keys that a value may come from, in the order in which they count."""
    if name == _FLUSH_INTERVALS[0]:
        return _FLUSH_INTERVALS
    family = next((each for each in _FAMILIES if name in each), (name,))
    return family if _base(name) == name else (name, _base(name))


def _base(name: str) -> str:
    match = _LISTENER_KEY.fullmatch(name)
    return match[1] if match else name


def _over(static: Mapping[str, str], *levels: Mapping[str, str]) -> dict[str, str]:
    """Lay levels over each other. A key of a higher one hides all of its family below."""
    found = dict(static)
    for level in levels:
        for name, text in level.items():
            if _base(name) == name:
                for synonym in synonyms_of(name):
                    found.pop(synonym, None)
            found[name] = text
    return found


def _check_texts(texts: Mapping[str, str], *, per_broker: bool) -> None:
    """Check what can be said of a level without the others."""
    fixed = [name for name in texts if _is_fixed(name)]
    if fixed:
        raise ConfigError(f"Cannot update these configs dynamically: {_set(fixed)}")
    security = [name for name in texts if _PER_LISTENER.fullmatch(name)]
    if security:
        raise ConfigError(
            "These security configs can be dynamically updated only per-listener using the listener prefix: "
            f"{_set(security)}"
        )
    for name, text in texts.items():
        base = _base(name)
        if base in CHANGEABLE:
            CHANGEABLE.parse(base, text)
    own = [name for name in texts if _is_per_broker(name)]
    if own and not per_broker:
        raise ConfigError(
            f"Cannot update these configs at default cluster level, broker id must be specified: {_set(own)}"
        )


def _is_fixed(name: str) -> bool:
    """Whether Kafka knows a key that only a restart changes; what nobody knows may be set."""
    if name in CHANGEABLE or _PER_LISTENER.fullmatch(name) or _base(name) != name:
        return False
    return name in BROKER_CONFIG or name in without_effect() or is_refused(name)


def _is_per_broker(name: str) -> bool:
    if _base(name) != name:
        return _base(name) not in _CLUSTER_WIDE_OF_LISTENER
    return name in CHANGEABLE and CHANGEABLE[name].dynamic == "per-broker"


def _set(names: Collection[str]) -> str:
    """Write a set as Java does."""
    return f"[{', '.join(sorted(names))}]"


def _level(per_broker: bool) -> str:
    return "this broker" if per_broker else "all brokers"


def _differences(old: Mapping[str, Any], new: Mapping[str, Any]) -> set[str]:
    return {name for name in old.keys() | new.keys() if old.get(name) != new.get(name)}


def _check_change(old: Mapping[str, Any], new: Mapping[str, Any]) -> None:
    """Check what Kafka's parts refuse to be changed to, whether or not there is such a part here."""
    for name in _THREADS:
        _check_threads(name, old[name], new[name])
    before, after = old["log.cleaner.threads"], new["log.cleaner.threads"]
    if after != before:
        if after < 1:
            raise ConfigError("Log cleaner threads should be at least 1")
        if after < before // 2:
            raise ConfigError(f"Log cleaner threads cannot be reduced to less than half the current value {before}")
        if after > before * 2:
            raise ConfigError(f"Log cleaner threads cannot be increased to more than double the current value {before}")
    retention_ms = LogConfig.from_broker(new).values["retention.ms"]
    _check_local_retention("log.local.retention.ms", "log.retention.ms", new, retention_ms)
    _check_local_retention("log.local.retention.bytes", "log.retention.bytes", new, new["log.retention.bytes"])


def _check_threads(name: str, before: int, after: int) -> None:
    if after == before:
        return
    fault = None
    if after <= 0:
        fault = "value should be at least 1"
    elif after < before // 2:
        fault = f"value should be at least half the current value {before}"
    elif after > before * 2:
        fault = f"value should not be greater than double the current value {before}"
    if fault:
        raise ConfigError(f"Dynamic thread count update validation failed for {name}={after}, {fault}")


def _check_local_retention(local: str, total: str, values: Mapping[str, Any], retention: int) -> None:
    """Check that no more is kept on the disk than is kept at all; -2 stands for all of it, -1 for ever."""
    value = values[local]
    if retention <= -1 or value == -2:
        return
    if value == -1:
        raise invalid_value(local, value, f"Value must not be -1 as {total} value is set as {retention}.")
    if value > retention:
        raise invalid_value(local, value, f"Value must not be more than {total} property value: {retention}")
