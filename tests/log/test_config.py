import pytest

from ottla.log.config import BROKER_LOG_CONFIG, BROKER_SYNONYMS, TOPIC_CONFIG, LogConfig
from ottla.wire.config_def import ConfigError


def _defaults(**texts: str) -> LogConfig:
    return LogConfig.from_broker(
        BROKER_LOG_CONFIG.parse_all({name.replace("_", "."): text for name, text in texts.items()})
    )


def test_a_topic_without_settings_on_a_broker_without_settings_has_kafkas_defaults() -> None:
    assert _defaults().values == LogConfig().values
    assert set(LogConfig().values) == set(TOPIC_CONFIG)


@pytest.mark.parametrize(
    ("texts", "key", "value"),
    [
        ({"log_retention_hours": "2"}, "retention.ms", 7_200_000),
        ({"log_retention_hours": "2", "log_retention_minutes": "3"}, "retention.ms", 180_000),
        ({"log_retention_minutes": "3", "log_retention_ms": "7"}, "retention.ms", 7),
        ({"log_retention_hours": "-1"}, "retention.ms", -1),
        ({"log_roll_hours": "1"}, "segment.ms", 3_600_000),
        ({"log_roll_hours": "1", "log_roll_ms": "5"}, "segment.ms", 5),
        ({"log_roll_jitter_hours": "1"}, "segment.jitter.ms", 3_600_000),
        ({"log_flush_scheduler_interval_ms": "9"}, "flush.ms", 9),
        ({"log_flush_scheduler_interval_ms": "9", "log_flush_interval_ms": "4"}, "flush.ms", 4),
        ({"log_segment_bytes": "14"}, "segment.bytes", 14),
        ({"message_max_bytes": "1"}, "max.message.bytes", 1),
        ({"log_cleanup_policy": "compact,delete"}, "cleanup.policy", ("compact", "delete")),
        ({"min_insync_replicas": "2"}, "min.insync.replicas", 2),
    ],
)
def test_a_topic_inherits_from_its_broker(texts: dict[str, str], key: str, value: object) -> None:
    assert _defaults(**texts).values[key] == value
    assert LogConfig.from_topic({}, _defaults(**texts)).values[key] == value


@pytest.mark.parametrize("text", ["", "*", "0:1", "0:1,12:345"])
def test_throttled_replicas_are_a_list_of_pairs_or_a_star(text: str) -> None:
    config = LogConfig.from_topic({"leader.replication.throttled.replicas": text}, _defaults())
    assert ",".join(config.values["leader.replication.throttled.replicas"]) == text


def test_a_topics_own_value_overrides_the_brokers() -> None:
    config = LogConfig.from_topic(
        {"segment.bytes": "500", "cleanup.policy": "compact"}, _defaults(log_segment_bytes="900")
    )
    assert config.segment_bytes == 500
    assert (config.compact, config.delete) == (True, False)


@pytest.mark.parametrize(
    ("overrides", "said"),
    [
        ({"segment.byte": "1"}, "Unknown topic config name: segment.byte"),
        ({"segment.bytes": "13"}, "segment.bytes"),
        ({"segment.bytes": "many"}, "segment.bytes"),
        (
            {"cleanup.policy": "compact,shred"},
            "Invalid value shred for configuration cleanup.policy: String must be one",
        ),
        ({"leader.replication.throttled.replicas": "0:1,x"}, r"Invalid value \[0:1, x\] for .* must be the literal"),
        ({"follower.replication.throttled.replicas": "*,0:1"}, r"Invalid value \[\*, 0:1\]"),
        ({"min.compaction.lag.ms": "5", "max.compaction.lag.ms": "4"}, "min.compaction.lag.ms"),
        ({"remote.storage.enable": "true"}, "Tiered Storage"),
        ({"remote.log.copy.disable": "true"}, "under Zookeeper's mode"),
        ({"remote.log.delete.on.disable": "true"}, "under Zookeeper's mode"),
        ({"message.timestamp.type": "Yesterday"}, "message.timestamp.type"),
    ],
)
def test_an_invalid_value_is_refused_by_its_key(overrides: dict[str, str], said: str) -> None:
    with pytest.raises(ConfigError, match=said):
        LogConfig.from_topic(overrides)


def test_the_old_limit_of_timestamps_counts_if_the_new_limits_are_unset() -> None:
    config = LogConfig.from_topic({"message.timestamp.difference.max.ms": "10", "message.timestamp.after.max.ms": "3"})
    assert (config.timestamp_before_max_ms, config.timestamp_after_max_ms) == (10, 3)


def test_a_segment_of_a_compacted_topic_ends_within_the_maximal_lag() -> None:
    times = {"segment.ms": "1000", "max.compaction.lag.ms": "700"}
    assert LogConfig.from_topic(times).max_segment_ms == 1000
    assert LogConfig.from_topic(times | {"cleanup.policy": "compact"}).max_segment_ms == 700
    assert LogConfig.from_topic(times | {"cleanup.policy": "delete,compact"}).max_segment_ms == 700
    assert LogConfig.from_topic({"cleanup.policy": "compact"}).max_segment_ms == LogConfig().segment_ms


def test_segments_end_earlier_by_no_more_than_the_jitter() -> None:
    config = LogConfig(segment_jitter_ms=50, segment_ms=20)
    found = {config.random_segment_jitter_ms() for _ in range(500)}
    assert found <= set(range(20))
    assert len(found) > 5
    assert LogConfig().random_segment_jitter_ms() == 0


def test_every_broker_key_behind_a_topic_key_is_declared() -> None:
    assert set(BROKER_SYNONYMS) <= set(TOPIC_CONFIG)
    assert set(BROKER_SYNONYMS.values()) <= set(BROKER_LOG_CONFIG)
    assert LogConfig().min_insync_replicas == 1
