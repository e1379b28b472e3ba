"""The configuration of logs: keys that a topic may set, broker keys that are their defaults, the values in force.

Owns these keys and how a topic's value falls back to the broker's. Must not know where values are kept.
Counterpart in Kafka: LogConfig, TopicConfig, ServerLogConfigs, ServerTopicConfigSynonyms.
"""

import random
import re
from collections.abc import Mapping
from typing import Any, NamedTuple, Self

from ottla.wire.config_def import (
    Between,
    Check,
    ConfigDef,
    ConfigError,
    ConfigKey,
    ConfigType,
    Importance,
    OneOf,
    Validator,
    at_least,
)

_BOOLEAN, _DOUBLE, _INT, _LIST, _LONG, _STRING = (
    ConfigType.BOOLEAN,
    ConfigType.DOUBLE,
    ConfigType.INT,
    ConfigType.LIST,
    ConfigType.LONG,
    ConfigType.STRING,
)
_HIGH, _LOW = Importance.HIGH, Importance.LOW
_LONG_MAX = 2**63 - 1
_HOUR_MS = 3_600_000
_MINUTE_MS = 60_000
_MEBIBYTE = 1 << 20
_CLUSTER_WIDE = "cluster-wide"

_ZERO_OR_MORE = at_least(0)
_ONE_OR_MORE = at_least(1)
_SHARE = Between(0, 1)
_POLICY = OneOf("compact", "delete")
_CODEC = OneOf("uncompressed", "zstd", "lz4", "snappy", "gzip", "producer")
_TIMESTAMP_TYPE = OneOf("CreateTime", "LogAppendTime")
_GZIP_LEVEL = Between(1, 9, also=-1)
_LZ4_LEVEL = Between(1, 17)
_ZSTD_LEVEL = Between(-131072, 22)


class _Both(NamedTuple):
    """A topic key and the broker key whose value is its default."""

    topic: str
    broker: str
    type: ConfigType
    default: Any
    validator: Validator | None
    doc: str
    importance: Importance = Importance.MEDIUM
    broker_default: bool = True
    """False if the broker key is unset by default, because other broker keys hold the default."""


_BOTH = [
    _Both("cleanup.policy", "log.cleanup.policy", _LIST, ("delete",), _POLICY,
          "What happens to old segments: delete them, compact them to the newest record of each key, or both."),
    _Both("compression.gzip.level", "compression.gzip.level", _INT, -1, _GZIP_LEVEL, "The level gzip compresses at."),
    _Both("compression.lz4.level", "compression.lz4.level", _INT, 9, _LZ4_LEVEL, "The level lz4 compresses at."),
    _Both("compression.zstd.level", "compression.zstd.level", _INT, 3, _ZSTD_LEVEL, "The level zstd compresses at."),
    _Both("compression.type", "compression.type", _STRING, "producer", _CODEC,
          "The codec that batches are stored with; `producer` keeps the producer's.", _HIGH),
    _Both("delete.retention.ms", "log.cleaner.delete.retention.ms", _LONG, 86_400_000, _ZERO_OR_MORE,
          "How long compaction keeps tombstones."),
    _Both("file.delete.delay.ms", "log.segment.delete.delay.ms", _LONG, 60_000, _ZERO_OR_MORE,
          "How long files of a deleted partition stay on disk.", _HIGH),
    _Both("flush.messages", "log.flush.interval.messages", _LONG, _LONG_MAX, _ONE_OR_MORE,
          "How many records may wait before they are forced to disk.", _HIGH),
    _Both("flush.ms", "log.flush.interval.ms", _LONG, _LONG_MAX, _ZERO_OR_MORE,
          "How long a record may wait before it is forced to disk.", _HIGH, broker_default=False),
    _Both("index.interval.bytes", "log.index.interval.bytes", _INT, 4096, _ZERO_OR_MORE,
          "How many bytes of log lie between two entries of its indexes."),
    _Both("local.retention.bytes", "log.local.retention.bytes", _LONG, -2, at_least(-2),
          "With remote storage, how much stays local; -2: all of `retention.bytes`."),
    _Both("local.retention.ms", "log.local.retention.ms", _LONG, -2, at_least(-2),
          "With remote storage, how long records stay local; -2: all of `retention.ms`."),
    _Both("max.compaction.lag.ms", "log.cleaner.max.compaction.lag.ms", _LONG, _LONG_MAX, _ONE_OR_MORE,
          "How long a record may escape compaction."),
    _Both("max.message.bytes", "message.max.bytes", _INT, 1_048_588, _ZERO_OR_MORE,
          "The largest batch that is accepted.", _HIGH),
    _Both("message.downconversion.enable", "log.message.downconversion.enable", _BOOLEAN, True, None,
          "Kept for old configurations: nothing is converted for clients that know only older formats.", _LOW),
    _Both("message.format.version", "log.message.format.version", _STRING, "3.0-IV1", None,
          "Kept for old configurations: batches are stored in format 2."),
    _Both("message.timestamp.after.max.ms", "log.message.timestamp.after.max.ms", _LONG, _LONG_MAX, _ZERO_OR_MORE,
          "How far a record's timestamp may lie after the broker's time."),
    _Both("message.timestamp.before.max.ms", "log.message.timestamp.before.max.ms", _LONG, _LONG_MAX, _ZERO_OR_MORE,
          "How far a record's timestamp may lie before the broker's time."),
    _Both("message.timestamp.difference.max.ms", "log.message.timestamp.difference.max.ms", _LONG, _LONG_MAX,
          _ZERO_OR_MORE, "The older key for both limits of timestamps, where they are not set themselves."),
    _Both("message.timestamp.type", "log.message.timestamp.type", _STRING, "CreateTime", _TIMESTAMP_TYPE,
          "Whether records keep their producer's timestamp or get the broker's."),
    _Both("min.cleanable.dirty.ratio", "log.cleaner.min.cleanable.ratio", _DOUBLE, 0.5, _SHARE,
          "The share of a log that must be uncompacted before compaction starts."),
    _Both("min.compaction.lag.ms", "log.cleaner.min.compaction.lag.ms", _LONG, 0, _ZERO_OR_MORE,
          "How long a record stays uncompacted at least."),
    _Both("min.insync.replicas", "min.insync.replicas", _INT, 1, _ONE_OR_MORE,
          "How many replicas must have a record that a producer with acks=all sends.", _HIGH),
    _Both("preallocate", "log.preallocate", _BOOLEAN, False, None,
          "Kept for old configurations: log files grow as records arrive."),
    _Both("retention.bytes", "log.retention.bytes", _LONG, -1, None,
          "How large a partition may grow before its oldest segments go; -1: without limit.", _HIGH),
    _Both("retention.ms", "log.retention.ms", _LONG, 604_800_000, at_least(-1),
          "How long records are kept; -1: for ever.", _HIGH, broker_default=False),
    _Both("segment.bytes", "log.segment.bytes", _INT, 1_073_741_824, at_least(14),
          "How large a file of the log may grow.", _HIGH),
    _Both("segment.index.bytes", "log.index.size.max.bytes", _INT, 10_485_760, at_least(4),
          "How large an index file may grow."),
    _Both("segment.jitter.ms", "log.roll.jitter.ms", _LONG, 0, _ZERO_OR_MORE,
          "How much earlier, at random, a segment may end.", _HIGH, broker_default=False),
    _Both("segment.ms", "log.roll.ms", _LONG, 604_800_000, _ONE_OR_MORE,
          "How long a segment takes records.", _HIGH, broker_default=False),
    _Both("unclean.leader.election.enable", "unclean.leader.election.enable", _BOOLEAN, False, None,
          "Whether a replica that misses records may lead as a last resort.", _HIGH),
]  # fmt: skip

_THROTTLED_REPLICA = re.compile(r"([0-9]+:[0-9]+)?")


def _throttled_replicas(name: str, doc: str) -> ConfigKey[tuple[str, ...]]:
    form = "[partitionId]:[brokerId],[partitionId]:[brokerId],..."

    def fault(items: tuple[str, ...]) -> str | None:
        if "".join(items) == "*" or all(_THROTTLED_REPLICA.fullmatch(item) for item in items):
            return None
        return f"{name} must be the literal '*' or a list of replicas in the following format: {form}"

    return ConfigKey(name, _LIST, (), Check(form, fault), doc)


_TOPIC_ONLY = [
    _throttled_replicas("follower.replication.throttled.replicas", "Followers whose fetching is throttled."),
    _throttled_replicas("leader.replication.throttled.replicas", "Leaders whose answers to followers are."),
    ConfigKey("remote.log.copy.disable", _BOOLEAN, False, None, "Part of remote storage, which there is none of."),
    ConfigKey("remote.log.delete.on.disable", _BOOLEAN, False, None, "Part of remote storage."),
    ConfigKey("remote.storage.enable", _BOOLEAN, False, None, "Remote storage; it cannot be enabled."),
]

_BROKER_ONLY = [
    ConfigKey("log.dir", _STRING, "/tmp/kafka-logs", None, "Where logs are kept if `log.dirs` is not set.", _HIGH),
    ConfigKey("log.dirs", _STRING, None, None, "Where logs are kept: directories, comma-separated.", _HIGH),
    ConfigKey("log.dir.failure.timeout.ms", _LONG, 30_000, _ONE_OR_MORE,
              "How long a broker may fail to report a broken directory.", _LOW),
    ConfigKey("log.cleaner.backoff.ms", _LONG, 15_000, _ZERO_OR_MORE, "How long compaction sleeps when all is clean.",
              dynamic=_CLUSTER_WIDE),
    ConfigKey("log.cleaner.dedupe.buffer.size", _LONG, 134_217_728, None, "Memory for the keys compaction looks for.",
              dynamic=_CLUSTER_WIDE),
    ConfigKey("log.cleaner.enable", _BOOLEAN, True, None, "Whether logs are compacted at all."),
    ConfigKey("log.cleaner.io.buffer.load.factor", _DOUBLE, 0.9, None, "How full that memory may get.",
              dynamic=_CLUSTER_WIDE),
    ConfigKey("log.cleaner.io.buffer.size", _INT, 524_288, _ZERO_OR_MORE, "Memory for reading and writing.",
              dynamic=_CLUSTER_WIDE),
    ConfigKey("log.cleaner.io.max.bytes.per.second", _DOUBLE, 1.7976931348623157e308, None,
              "How fast compaction may read and write.", dynamic=_CLUSTER_WIDE),
    ConfigKey("log.cleaner.threads", _INT, 1, _ZERO_OR_MORE, "How many logs are compacted at a time.",
              dynamic=_CLUSTER_WIDE),
    ConfigKey("log.flush.offset.checkpoint.interval.ms", _INT, 60_000, _ZERO_OR_MORE,
              "How often recovery points are written.", _HIGH),
    ConfigKey("log.flush.scheduler.interval.ms", _LONG, _LONG_MAX, None,
              "How often logs are looked at for records to force to disk.", _HIGH),
    ConfigKey("log.flush.start.offset.checkpoint.interval.ms", _INT, 60_000, _ZERO_OR_MORE,
              "How often log start offsets are written.", _HIGH),
    ConfigKey("log.initial.task.delay.ms", _LONG, 30_000, _ZERO_OR_MORE,
              "How long after the start logs are first looked at.", _LOW, is_internal=True),
    ConfigKey("log.retention.check.interval.ms", _LONG, 300_000, _ONE_OR_MORE, "How often old segments are sought."),
    ConfigKey("log.retention.hours", _INT, 168, None, "`log.retention.ms` in hours, if that is not set.", _HIGH),
    ConfigKey("log.retention.minutes", _INT, None, None, "`log.retention.ms` in minutes, if that is not set.", _HIGH),
    ConfigKey("log.roll.hours", _INT, 168, _ONE_OR_MORE, "`log.roll.ms` in hours, if that is not set.", _HIGH),
    ConfigKey("log.roll.jitter.hours", _INT, 0, _ZERO_OR_MORE, "`log.roll.jitter.ms` in hours, if not set.", _HIGH),
    ConfigKey("producer.id.expiration.ms", _INT, 86_400_000, _ONE_OR_MORE,
              "How long a partition remembers a producer that is silent.", _LOW, _CLUSTER_WIDE),
]  # fmt: skip

TOPIC_CONFIG = ConfigDef(
    [ConfigKey(key.topic, key.type, key.default, key.validator, key.doc) for key in _BOTH] + _TOPIC_ONLY
)
"""Every key that a topic may set."""

# `check_broker_values` checks their bounds, because several keys give one value.
_UNBOUNDED = ("log.retention.ms", "log.roll.ms", "log.roll.jitter.ms")

BROKER_LOG_CONFIG = ConfigDef(
    [
        ConfigKey(
            key.broker,
            key.type,
            key.default if key.broker_default else None,
            None if key.broker in _UNBOUNDED else key.validator,
            key.doc,
            key.importance,
            "read-only" if key.broker == "log.message.format.version" else _CLUSTER_WIDE,
        )
        for key in _BOTH
    ]
    + _BROKER_ONLY
)
"""Every broker key about logs."""

BROKER_SYNONYMS: Mapping[str, str] = {key.topic: key.broker for key in _BOTH}
"""The broker key of the highest priority behind a topic key."""


def _first(*values: int | None) -> int:
    """Return the first value that is set."""
    return next(value for value in values if value is not None)


def _scaled(value: int | None, factor: int) -> int | None:
    return None if value is None else -1 if value < 0 else value * factor


def check_broker_values(broker: Mapping[str, Any]) -> None:
    """Raise ConfigError for values of BROKER_LOG_CONFIG that contradict each other."""
    defaults = topic_defaults(broker)
    _require(defaults["segment.ms"] >= 1, "log.roll.ms must be greater than or equal to 1")
    _require(defaults["segment.jitter.ms"] >= 0, "log.roll.jitter.ms must be greater than or equal to 0")
    _require(defaults["retention.ms"] != 0, "log.retention.ms must be unlimited (-1) or, greater than or equal to 1")
    threads = broker["log.cleaner.threads"]
    _require(
        not threads or broker["log.cleaner.dedupe.buffer.size"] // threads > _MEBIBYTE,
        "log.cleaner.dedupe.buffer.size must be at least 1MB per cleaner thread.",
    )


def _require(is_met: bool, requirement: str) -> None:
    if not is_met:
        raise ConfigError(f"requirement failed: {requirement}")


def topic_defaults(broker: Mapping[str, Any]) -> dict[str, Any]:
    """Return the default of each topic key on a broker with these values of BROKER_LOG_CONFIG."""
    defaults = {key.topic: broker[key.broker] for key in _BOTH} | {key.name: key.default for key in _TOPIC_ONLY}
    defaults["segment.ms"] = _first(broker["log.roll.ms"], _scaled(broker["log.roll.hours"], _HOUR_MS))
    defaults["segment.jitter.ms"] = _first(
        broker["log.roll.jitter.ms"], _scaled(broker["log.roll.jitter.hours"], _HOUR_MS)
    )
    retention_ms = _first(
        broker["log.retention.ms"],
        _scaled(broker["log.retention.minutes"], _MINUTE_MS),
        _scaled(broker["log.retention.hours"], _HOUR_MS),
    )
    defaults["retention.ms"] = max(retention_ms, -1)
    defaults["flush.ms"] = _first(broker["log.flush.interval.ms"], broker["log.flush.scheduler.interval.ms"])
    return defaults


class LogConfig:
    """The values in force for one topic: all by Kafka's names in `values`, and as attributes what storage reads."""

    __slots__ = (
        "flush_messages", "flush_ms", "index_interval_bytes", "log_append_time", "max_message_bytes",
        "max_segment_ms", "segment_bytes", "segment_index_bytes", "segment_jitter_ms", "segment_ms",
        "timestamp_after_max_ms", "timestamp_before_max_ms", "values",
    )  # fmt: skip

    def __init__(self, values: Mapping[str, Any] | None = None, **named: Any) -> None:
        """Take parsed values by key; defaults for the rest. `segment_bytes=1` stands for "segment.bytes"."""
        values = {name: key.default for name, key in TOPIC_CONFIG.items()} | dict(values or {})
        values |= {name.replace("_", "."): value for name, value in named.items()}
        self.values: Mapping[str, Any] = values
        self.flush_messages: int = values["flush.messages"]
        self.flush_ms: int = values["flush.ms"]
        self.index_interval_bytes: int = values["index.interval.bytes"]
        self.max_message_bytes: int = values["max.message.bytes"]
        self.log_append_time: bool = values["message.timestamp.type"] == "LogAppendTime"
        self.segment_bytes: int = values["segment.bytes"]
        self.segment_index_bytes: int = values["segment.index.bytes"]
        self.segment_jitter_ms: int = values["segment.jitter.ms"]
        self.segment_ms: int = values["segment.ms"]
        # A record must leave the active segment in time, because compaction leaves the active segment alone.
        self.max_segment_ms = min(self.segment_ms, values["max.compaction.lag.ms"]) if self.compact else self.segment_ms
        difference = values["message.timestamp.difference.max.ms"]
        before, after = values["message.timestamp.before.max.ms"], values["message.timestamp.after.max.ms"]
        self.timestamp_before_max_ms: int = difference if before == _LONG_MAX else before
        self.timestamp_after_max_ms: int = difference if after == _LONG_MAX else after

    @classmethod
    def from_broker(cls, values: Mapping[str, Any]) -> Self:
        """Return the configuration of a topic that sets nothing; `values` holds all of BROKER_LOG_CONFIG."""
        return cls(topic_defaults(values))

    @classmethod
    def from_topic(cls, overrides: Mapping[str, str], broker_defaults: "LogConfig | None" = None) -> Self:
        """Return a topic's configuration; ConfigError for an unknown key or an invalid value."""
        values = dict(broker_defaults.values if broker_defaults else {})
        for name, text in overrides.items():
            if name not in TOPIC_CONFIG:
                raise ConfigError(f"Unknown topic config name: {name}")
            values[name] = TOPIC_CONFIG.parse(name, text)
        config = cls(values)
        least, most = config.values["min.compaction.lag.ms"], config.values["max.compaction.lag.ms"]
        if least > most:
            raise ConfigError(
                f"conflict topic config setting min.compaction.lag.ms ({least}) > max.compaction.lag.ms ({most})"
            )
        if config.values["remote.log.delete.on.disable"] or config.values["remote.log.copy.disable"]:
            raise ConfigError(
                "It is invalid to set `remote.log.delete.on.disable` or `remote.log.copy.disable` "
                "under Zookeeper's mode."
            )
        if config.values["remote.storage.enable"]:
            raise ConfigError("Tiered Storage functionality is disabled in the broker.")
        return config

    @property
    def compact(self) -> bool:
        """Whether compaction removes a record when a newer record has the same key."""
        return "compact" in self.values["cleanup.policy"]

    @property
    def delete(self) -> bool:
        """Whether retention removes segments by age and size."""
        return "delete" in self.values["cleanup.policy"]

    @property
    def min_insync_replicas(self) -> int:
        """How many in-sync replicas a write with acks=all needs."""
        return int(self.values["min.insync.replicas"])

    def random_segment_jitter_ms(self) -> int:
        """Return how many milliseconds before `segment.ms` a new segment rolls, chosen at random."""
        limit = min(self.segment_jitter_ms, self.segment_ms)
        return random.randrange(limit) if limit > 0 else 0
