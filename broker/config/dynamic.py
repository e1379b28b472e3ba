"""The broker's configuration as it changes while the broker runs.

Owns the values set for this broker and for all brokers, their checks, the values in force, and the subscribers to
changes. Must not know where values are stored. Counterpart in Kafka: DynamicBrokerConfig.

A value for this broker counts first, then a value for all brokers, then the file and other sources of the start, then
the default. Keys of one meaning in several units count as one: a level that sets one of them sets them all.
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

CHANGEABLE: Final = ConfigDef(
    [*(key for key in BROKER_CONFIG.values() if key.dynamic != "read-only"), *THROTTLE_CONFIG.values()]
)
"""Every key that may change while a broker runs."""

_NONE: Final[Mapping[str, str]] = MappingProxyType({})
_LISTENER_KEY: Final = re.compile(r"listener\.name\.[^.]*\.(.*)")
# Keys of one meaning in several units; the first that is set counts.
_FAMILIES: Final = (
    ("log.roll.ms", "log.roll.hours"),
    ("log.roll.jitter.ms", "log.roll.jitter.hours"),
    ("log.retention.ms", "log.retention.minutes", "log.retention.hours"),
)
_FLUSH_INTERVALS: Final = ("log.flush.interval.ms", "log.flush.scheduler.interval.ms")
# Kafka changes these for single listeners only.
_PER_LISTENER: Final = re.compile(
    r"ssl\.(keystore\.(type|location|password|certificate\.chain|key)|key\.password"
    r"|truststore\.(type|location|password|certificates))"
)
# The only keys of a single listener that may be set for all brokers.
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
    """The values in force at one broker, and their sources."""

    def __init__(self, static: BrokerConfig) -> None:
        self.static = static
        self.current = static
        self.log_defaults = LogConfig.from_broker(static.values)
        self.own: Mapping[str, str] = _NONE
        self.default: Mapping[str, str] = _NONE
        self._subscribers: list[tuple[frozenset[str], Changed]] = []

    def subscribe(self, names: Iterable[str], changed: Changed) -> None:
        """Await `changed` with the new configuration whenever one of these keys, or one of a listener, has changed.

        `update` returns, and the client gets its response, when all subscribers have returned.
        """
        self._subscribers.append((frozenset(names), changed))

    def usable(self, stored: Mapping[str, str], *, per_broker: bool) -> dict[str, str]:
        """Return the valid configs of a level; log the others, which a tool may have written."""
        found = {}
        for name, text in stored.items():
            try:
                check_refused(name, text)
                _check_texts({name: text}, per_broker=per_broker)
                found[name] = text
            except ConfigError as error:
                logger.error("A dynamic config of %s is ignored: %s", _level(per_broker), error)
        return found

    def check(self, wanted: Mapping[str, str], *, per_broker: bool) -> None:
        """Raise ConfigError, in Kafka's words, if a level cannot change to `wanted`."""
        _check_texts(wanted, per_broker=per_broker)
        levels = (self.default, wanted) if per_broker else (wanted, self.own)
        new = BrokerConfig(_over(self.static.texts, *levels))
        try:
            _check_change(self.current.values, new.values)
        except ConfigError as error:
            # As Kafka wraps the errors of its parts.
            cause = f"org.apache.kafka.common.config.ConfigException: {error}"
            raise ConfigError(f"Invalid value {cause} for configuration Invalid dynamic configuration") from error

    def never_static(self, name: str) -> int:
        """Return the value in force of a key that no file can set."""
        text = self.own.get(name, self.default.get(name))
        key: ConfigKey[int] = THROTTLE_CONFIG[name]
        return key.default if text is None else key.parse(text)

    async def update(self, default: Mapping[str, str], own: Mapping[str, str]) -> None:
        """Use the stored configs of both levels; return when the changes are in effect."""
        default, own = self.usable(default, per_broker=False), self.usable(own, per_broker=True)
        try:
            new = BrokerConfig(_over(self.static.texts, default, own))
        except ConfigError as error:
            logger.error("The stored dynamic configs contradict each other, the old ones stay in force: %s", error)
            return
        old, self.current, self.default, self.own = self.current, new, default, own
        changed = _differences(old.values, new.values) | _differences(old.texts, new.texts)
        if not changed:
            return
        logger.info("These configs have changed: %s", ", ".join(sorted(changed)))
        self.log_defaults = LogConfig.from_broker(new.values)
        bases = {_base(name) for name in changed}
        for names, notify in self._subscribers:
            if not names.isdisjoint(bases):
                try:
                    await notify(new)
                except Exception:
                    logger.exception("A bug: a part of the broker could not use the changed configs")


def key_of(name: str) -> ConfigKey[Any] | None:
    """Return the declared key of a name, with or without a listener's prefix; None if there is none."""
    known = BROKER_CONFIG.get(name) or THROTTLE_CONFIG.get(name)
    return known or BROKER_CONFIG.get(_base(name))


def synonyms_of(name: str) -> tuple[str, ...]:
    """Return the keys that a value may come from, the first that is set counts."""
    if name == _FLUSH_INTERVALS[0]:
        return _FLUSH_INTERVALS
    family = next((each for each in _FAMILIES if name in each), (name,))
    return family if _base(name) == name else (name, _base(name))


def _base(name: str) -> str:
    match = _LISTENER_KEY.fullmatch(name)
    return match[1] if match else name


def _over(static: Mapping[str, str], *levels: Mapping[str, str]) -> dict[str, str]:
    """Return the texts with the levels laid over them. A key of a higher level hides its family in the lower ones."""
    found = dict(static)
    for level in levels:
        for name, text in level.items():
            if _base(name) == name:
                for synonym in synonyms_of(name):
                    found.pop(synonym, None)
            found[name] = text
    return found


def _check_texts(texts: Mapping[str, str], *, per_broker: bool) -> None:
    """Raise ConfigError for a level that is invalid by itself."""
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
    """Whether this is a key of Kafka's that only a restart changes. Unknown keys may be set."""
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
    """Raise ConfigError for a change that a part of Kafka refuses, also if Ottla has no such part."""
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
    """Check that the local retention is not above the total one. -2 means the total one, -1 no limit."""
    value = values[local]
    if retention <= -1 or value == -2:
        return
    if value == -1:
        raise invalid_value(local, value, f"Value must not be -1 as {total} value is set as {retention}.")
    if value > retention:
        raise invalid_value(local, value, f"Value must not be more than {total} property value: {retention}")
