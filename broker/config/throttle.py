"""Throttled replicas: which ones are, and whether they are copied too fast.

PURE. Owns the keys and the measurement. Must not know leaders and followers: one quota is for the bytes that this
broker sends as a leader, another for those that it fetches as a follower. In-sync replicas count, and never wait.
Counterparts in Kafka: ReplicationQuotaManager, TopicConfigHandler.parseThrottledPartitions.
"""

import functools
from typing import Final

from ottla.broker.loop.sliding_rate import SampledRate
from ottla.wire.config_def import ConfigDef, ConfigKey, ConfigType, Importance, at_least

UNLIMITED: Final = 2**63 - 1
LEADER_RATE: Final = "leader.replication.throttled.rate"
FOLLOWER_RATE: Final = "follower.replication.throttled.rate"
MOVE_RATE: Final = "replica.alter.log.dirs.io.max.bytes.per.second"
_ALL: Final = "*"

QUOTA_CONFIG: Final = ConfigDef(
    [
        ConfigKey(
            "replication.quota.window.num",
            ConfigType.INT,
            11,
            at_least(1),
            "The number of windows over which the rate of throttled replicas is measured.",
            Importance.LOW,
        ),
        ConfigKey(
            "replication.quota.window.size.seconds",
            ConfigType.INT,
            1,
            at_least(1),
            "The length of each window of `replication.quota.window.num`.",
            Importance.LOW,
        ),
        ConfigKey(
            "alter.log.dirs.replication.quota.window.num",
            ConfigType.INT,
            11,
            at_least(1),
            "The number of windows over which the rate of moves between log directories is measured.",
            Importance.LOW,
        ),
        ConfigKey(
            "alter.log.dirs.replication.quota.window.size.seconds",
            ConfigType.INT,
            1,
            at_least(1),
            "The length of each window of `alter.log.dirs.replication.quota.window.num`.",
            Importance.LOW,
        ),
    ]
)

THROTTLE_CONFIG: Final = ConfigDef(
    ConfigKey(name, ConfigType.LONG, UNLIMITED, at_least(0), doc, Importance.MEDIUM, "cluster-wide")
    for name, doc in (
        (FOLLOWER_RATE, "The most bytes per second that a broker fetches for all its throttled followers together."),
        (
            LEADER_RATE,
            "The most bytes per second that a broker sends for all its throttled leaders together.",
        ),
        (MOVE_RATE, "The most bytes per second that a broker copies between its log directories."),
    )
)
"""Keys that no file can set, only a change while the broker runs."""


class ReplicationQuota:
    """The limit of one direction. Times are monotonic."""

    def __init__(self, window_num: int = 11, window_ms: int = 1000) -> None:
        self.bytes_per_second = UNLIMITED
        self._rate = SampledRate(window_num, window_ms)

    def record(self, size: int, now_ms: float) -> None:
        """Count bytes of a throttled replica that were sent or fetched."""
        self._rate.record(size, now_ms)

    def is_exceeded(self, now_ms: float) -> bool:
        """Whether the recent rate is above the limit. A measurement shorter than a window counts as one window."""
        if self.bytes_per_second == UNLIMITED:
            return False
        size, elapsed_ms = self._rate.measure(now_ms)
        return 1000 * size > self.bytes_per_second * max(elapsed_ms, self._rate.window_ms)


def is_throttled(replicas: tuple[str, ...], partition: int, broker_id: int) -> bool:
    """Whether a topic's list names this replica, or all replicas."""
    return bool(replicas) and (_ALL in replicas or (partition, broker_id) in _pairs(replicas))


@functools.lru_cache(maxsize=16)
def _pairs(replicas: tuple[str, ...]) -> frozenset[tuple[int, int]]:
    """Return the `partition:broker` items, cached because a topic may have thousands of partitions."""
    pairs = (item.split(":") for item in replicas if item)
    return frozenset((int(partition), int(broker_id)) for partition, broker_id in pairs)
