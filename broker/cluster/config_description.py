"""Configs as clients are told of them: the value in force, where it comes from, and what stands behind it.

Owns the sources and their order, and which values are nobody's business. Must not know the messages they are told in.
A topic's own value stands before those of the broker, and there what was set for it while it runs, what was set for
all, its file, the defaults. Counterparts in Kafka: ConfigHelper, DynamicBrokerConfig.brokerConfigSynonyms.
"""

import re
from collections.abc import Mapping, Sequence
from enum import IntEnum
from itertools import dropwhile
from typing import Any, Final, NamedTuple

from ottla.broker.config import log_levels as loggers
from ottla.broker.config.broker_config import BROKER_CONFIG
from ottla.broker.config.dynamic import DynamicConfig, key_of, synonyms_of
from ottla.log.config import BROKER_SYNONYMS, TOPIC_CONFIG, LogConfig
from ottla.wire.config_def import ConfigError, ConfigKey, ConfigType, Password, render
from ottla.wire.errors import ErrorCode, KafkaError

_BROKER_ID: Final = re.compile(r"[+-]?[0-9]{1,10}")
_UNKNOWN_TYPE: Final = 0


class Resource(IntEnum):
    """What has configs. Counterpart: ConfigResource.Type."""

    TOPIC = 2
    BROKER = 4
    BROKER_LOGGER = 8
    CLIENT_METRICS = 16
    GROUP = 32


class Source(IntEnum):
    """Where a value comes from. Counterpart: DescribeConfigsResponse.ConfigSource."""

    TOPIC = 1
    DYNAMIC_BROKER = 2
    DYNAMIC_DEFAULT_BROKER = 3
    STATIC_BROKER = 4
    DEFAULT = 5
    DYNAMIC_BROKER_LOGGER = 6


class Synonym(NamedTuple):
    """A value that is there for a config."""

    name: str
    value: str | None
    source: Source


class Entry(NamedTuple):
    """A config with all that can be told of it; the first synonym counts."""

    name: str
    value: str | None
    source: Source
    synonyms: Sequence[Synonym] = ()
    read_only: bool = False
    is_sensitive: bool = False
    type: int = _UNKNOWN_TYPE
    doc: str | None = None


def broker_id_of(name: str, kind: str) -> int:
    """Return the broker that a resource's name means; KafkaError, with Kafka's word for it, if that is none."""
    if not _BROKER_ID.fullmatch(name):
        raise KafkaError(ErrorCode.INVALID_REQUEST, f"{kind} id must be an integer, but it is: {name}")
    return int(name)


def topic_config(own: Mapping[str, str], dynamic: DynamicConfig) -> LogConfig:
    """Return the configuration of a topic with these configs; KafkaError INVALID_CONFIG if one is invalid."""
    try:
        return LogConfig.from_topic(own, dynamic.log_defaults)
    except ConfigError as error:
        raise KafkaError(ErrorCode.INVALID_CONFIG, str(error)) from error


def topic_entries(own: Mapping[str, str], dynamic: DynamicConfig) -> list[Entry]:
    """Return all configs of a topic that was given these."""
    values = topic_config(own, dynamic).values
    found = []
    for name, key in TOPIC_CONFIG.items():
        value = _text(key, values[name])
        synonyms = _synonyms(BROKER_SYNONYMS[name], dynamic) if name in BROKER_SYNONYMS else []
        if name in own:
            synonyms = [Synonym(name, value, Source.TOPIC), *synonyms]
        found.append(_entry(name, key, value, synonyms, read_only=False))
    return found


def broker_entries(dynamic: DynamicConfig) -> list[Entry]:
    """Return all configs of this broker, also those that nobody knows."""
    config = dynamic.current
    found = []
    told = [name for name, key in BROKER_CONFIG.items() if not key.is_internal or name in config.texts]
    for name in (*told, *sorted(config.texts.keys() - BROKER_CONFIG.keys())):
        key = key_of(name)
        value = _text(key, config.values[name]) if name in BROKER_CONFIG else _shown(key, config.texts[name])
        found.append(_entry(name, key, value, _synonyms(name, dynamic), read_only=not _is_changeable(name)))
    return found


def default_entries(dynamic: DynamicConfig) -> list[Entry]:
    """Return what was set for all brokers while they run."""
    found = []
    for name, text in sorted(dynamic.default.items()):
        key = key_of(name)
        synonyms = [each for each in _synonyms(name, dynamic) if each.source is Source.DYNAMIC_DEFAULT_BROKER]
        found.append(_entry(name, key, _shown(key, text), synonyms, read_only=not _is_changeable(name)))
    return found


def logger_entries() -> list[Entry]:
    """Return the levels of all loggers."""
    return [Entry(name, level, Source.DYNAMIC_BROKER_LOGGER) for name, level in loggers.levels().items()]


def _entry(
    name: str, key: ConfigKey[Any] | None, value: str | None, synonyms: Sequence[Synonym], *, read_only: bool
) -> Entry:
    return Entry(
        name,
        value,
        synonyms[0].source if synonyms else Source.DEFAULT,
        synonyms,
        read_only,
        _is_sensitive(key),
        key.type.value if key else _UNKNOWN_TYPE,
        key.doc if key else None,
    )


def _is_changeable(name: str) -> bool:
    return name in BROKER_CONFIG and BROKER_CONFIG[name].dynamic != "read-only"


def _synonyms(name: str, dynamic: DynamicConfig) -> list[Synonym]:
    """Return all values that there are for a broker's key and those that stand in for it, the one that counts first."""
    names = synonyms_of(name)
    levels = (
        (Source.DYNAMIC_BROKER, dynamic.own),
        (Source.DYNAMIC_DEFAULT_BROKER, dynamic.default),
        (Source.STATIC_BROKER, dynamic.static.texts),
    )
    found = [
        Synonym(each, _shown(key_of(each), texts[each]), source)
        for source, texts in levels
        for each in names
        if each in texts
    ]
    found += [
        Synonym(each, _text(key, key.default), Source.DEFAULT)
        for each in names
        if (key := BROKER_CONFIG.get(each)) is not None and key.default is not None
    ]
    # Kafka does so too: what stands in for a key shows only behind a value of the key itself.
    return list(dropwhile(lambda synonym: synonym.name != name, found))


def _is_sensitive(key: ConfigKey[Any] | None) -> bool:
    """Whether a value is nobody's business; of a key that is not known, that has to be assumed."""
    return key is None or key.type is ConfigType.PASSWORD


def _shown(key: ConfigKey[Any] | None, text: str) -> str | None:
    return None if _is_sensitive(key) else text


def _text(key: ConfigKey[Any] | None, value: Any) -> str | None:
    return None if value is None or isinstance(value, Password) or _is_sensitive(key) else render(value)
