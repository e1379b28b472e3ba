"""The configuration of consumer groups and of the topic that keeps them.

Owns these keys. Must not know which code reads a value; the broker reads those of the topic itself. Counterpart in
Kafka: GroupCoordinatorConfig.
"""

from collections.abc import Mapping
from typing import Any, NamedTuple

from ottla.wire.config_def import ConfigDef, ConfigKey, ConfigType, Importance, at_least

_INT, _LONG, _SHORT = ConfigType.INT, ConfigType.LONG, ConfigType.SHORT
_HIGH = Importance.HIGH
_POSITIVE = at_least(1)
_MINUTE_MS = 60_000

GROUP_CONFIG = ConfigDef(
    [
        ConfigKey(
            "group.initial.rebalance.delay.ms",
            _INT,
            3_000,
            doc="How long an empty group waits for more members before its first rebalance. Every member that joins "
            "in that time prolongs the wait.",
        ),
        ConfigKey("group.max.session.timeout.ms", _INT, 1_800_000, doc="The longest session timeout a member may ask."),
        ConfigKey("group.max.size", _INT, 2**31 - 1, _POSITIVE, doc="How many members a group may have."),
        ConfigKey("group.min.session.timeout.ms", _INT, 6_000, doc="The shortest session timeout a member may ask."),
        ConfigKey(
            "offset.metadata.max.bytes",
            _INT,
            4_096,
            doc="The longest text that a client may keep with a committed offset.",
            importance=_HIGH,
        ),
        ConfigKey(
            "offsets.commit.required.acks",
            _SHORT,
            -1,
            doc="No effect: a commit is always answered when all in-sync replicas have it. Deprecated in Kafka.",
            importance=_HIGH,
        ),
        ConfigKey(
            "offsets.commit.timeout.ms",
            _INT,
            5_000,
            _POSITIVE,
            doc="How long a commit waits for the in-sync replicas.",
            importance=_HIGH,
        ),
        ConfigKey(
            "offsets.load.buffer.size",
            _INT,
            5_242_880,
            _POSITIVE,
            doc="How much of `__consumer_offsets` is read at a time when its groups are loaded.",
            importance=_HIGH,
        ),
        ConfigKey(
            "offsets.retention.check.interval.ms",
            _LONG,
            600_000,
            _POSITIVE,
            doc="How often expired offsets are deleted.",
            importance=_HIGH,
        ),
        ConfigKey(
            "offsets.retention.minutes",
            _INT,
            7 * 24 * 60,
            _POSITIVE,
            doc="How long committed offsets are kept after the group has lost its last member, or after the commit if "
            "no member subscribes to the topic.",
            importance=_HIGH,
        ),
        ConfigKey(
            "offsets.topic.compression.codec",
            _INT,
            0,
            doc="The codec of the batches in `__consumer_offsets`, by its number.",
            importance=_HIGH,
        ),
        ConfigKey(
            "offsets.topic.num.partitions",
            _INT,
            50,
            _POSITIVE,
            doc="Partitions of `__consumer_offsets`. Must not change once the topic exists.",
            importance=_HIGH,
        ),
        ConfigKey(
            "offsets.topic.replication.factor",
            _SHORT,
            3,
            _POSITIVE,
            doc="Replicas of `__consumer_offsets`. The topic is not created before there are as many brokers. Without "
            "ZooKeeper it gets no more replicas than there are brokers.",
            importance=_HIGH,
        ),
        ConfigKey(
            "offsets.topic.segment.bytes",
            _INT,
            104_857_600,
            _POSITIVE,
            doc="The size of a segment of `__consumer_offsets`.",
            importance=_HIGH,
        ),
    ]
)


class GroupConfig(NamedTuple):
    """The values that decisions on groups need."""

    min_session_timeout_ms: int = 6_000
    max_session_timeout_ms: int = 1_800_000
    initial_rebalance_delay_ms: int = 3_000
    max_size: int = 2**31 - 1
    offset_metadata_max_bytes: int = 4_096
    retention_ms: int = 7 * 24 * 60 * _MINUTE_MS
    retention_check_interval_ms: int = 600_000


def read_group_config(values: Mapping[str, Any]) -> GroupConfig:
    """Return these values out of the values of all keys."""
    return GroupConfig(
        values["group.min.session.timeout.ms"],
        values["group.max.session.timeout.ms"],
        values["group.initial.rebalance.delay.ms"],
        values["group.max.size"],
        values["offset.metadata.max.bytes"],
        values["offsets.retention.minutes"] * _MINUTE_MS,
        values["offsets.retention.check.interval.ms"],
    )
