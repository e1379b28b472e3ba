"""Descriptions of configs for clients: the value in force, its source, and the values behind it.

Owns the sources and their order, and which values are secret. Must not know the messages that carry descriptions. A
topic's own value comes before the broker's values. Of these the dynamic one of the broker comes first, then that of all
brokers, the file, the default. Counterparts in Kafka: ConfigHelper, DynamicBrokerConfig.brokerConfigSynonyms.
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
    """The types of resources that have configs. Counterpart in Kafka: ConfigResource.Type."""

    TOPIC = 2
    BROKER = 4
    BROKER_LOGGER = 8
    CLIENT_METRICS = 16
    GROUP = 32


class Source(IntEnum):
    """The sources of values. Counterpart in Kafka: DescribeConfigsResponse.ConfigSource."""

    TOPIC = 1
    DYNAMIC_BROKER = 2
    DYNAMIC_DEFAULT_BROKER = 3
    STATIC_BROKER = 4
    DEFAULT = 5
    DYNAMIC_BROKER_LOGGER = 6


class Synonym(NamedTuple):
    """A value that a config has, or would have without the values before it."""

    name: str
    value: str | None
    source: Source


class Entry(NamedTuple):
    """The description of a config; the first synonym is in force."""

    name: str
    value: str | None
    source: Source
    synonyms: Sequence[Synonym] = ()
    read_only: bool = False
    is_sensitive: bool = False
    type: int = _UNKNOWN_TYPE
    doc: str | None = None


def broker_id_of(name: str, kind: str) -> int:
    """Return the broker id in a resource's name; KafkaError if it is none, with `kind` as Kafka's word for it."""
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
    """Return the descriptions of all configs of a topic whose own configs are `own`."""
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
    """Return the descriptions of all configs of this broker, unknown ones too."""
    config = dynamic.current
    found = []
    shown = [name for name, key in BROKER_CONFIG.items() if not key.is_internal or name in config.texts]
    for name in (*shown, *sorted(config.texts.keys() - BROKER_CONFIG.keys())):
        key = key_of(name)
        value = _text(key, config.values[name]) if name in BROKER_CONFIG else _shown(key, config.texts[name])
        found.append(_entry(name, key, value, _synonyms(name, dynamic), read_only=not _is_changeable(name)))
    return found


def default_entries(dynamic: DynamicConfig) -> list[Entry]:
    """Return the descriptions of the dynamic configs of all brokers."""
    found = []
    for name, text in sorted(dynamic.default.items()):
        key = key_of(name)
        synonyms = [each for each in _synonyms(name, dynamic) if each.source is Source.DYNAMIC_DEFAULT_BROKER]
        found.append(_entry(name, key, _shown(key, text), synonyms, read_only=not _is_changeable(name)))
    return found


def logger_entries() -> list[Entry]:
    """Return the descriptions of all loggers' levels."""
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
    """Return all values of a broker's key and of the keys that stand in for it, the one in force first."""
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
    # As in Kafka, keys that stand in for a key show only behind a value of the key itself.
    return list(dropwhile(lambda synonym: synonym.name != name, found))


def _is_sensitive(key: ConfigKey[Any] | None) -> bool:
    """Whether values of a key are secret. Those of an unknown key may be."""
    return key is None or key.type is ConfigType.PASSWORD


def _shown(key: ConfigKey[Any] | None, text: str) -> str | None:
    return None if _is_sensitive(key) else text


def _text(key: ConfigKey[Any] | None, value: Any) -> str | None:
    return None if value is None or isinstance(value, Password) or _is_sensitive(key) else render(value)
