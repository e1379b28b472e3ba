"""How fast replicas that are throttled may be copied: which ones are, and whether it is too fast.

PURE. Owns the keys, and what is measured. Must not know leaders and followers: there is one quota for what this broker
sends as a leader, one for what it fetches as a follower. Replicas that are in sync are counted, and never held back.
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
            "Over how many windows the rate of throttled replicas is measured.",
            Importance.LOW,
        ),
        ConfigKey(
            "replication.quota.window.size.seconds",
            ConfigType.INT,
            1,
            at_least(1),
            "The length of such a window.",
            Importance.LOW,
        ),
        ConfigKey(
            "alter.log.dirs.replication.quota.window.num",
            ConfigType.INT,
            11,
            at_least(1),
            "Over how many windows the rate of replicas that move between log directories is measured.",
            Importance.LOW,
        ),
        ConfigKey(
            "alter.log.dirs.replication.quota.window.size.seconds",
            ConfigType.INT,
            1,
            at_least(1),
            "The length of such a window.",
            Importance.LOW,
        ),
    ]
)

THROTTLE_CONFIG: Final = ConfigDef(
    ConfigKey(name, ConfigType.LONG, UNLIMITED, at_least(0), doc, Importance.MEDIUM, "cluster-wide")
    for name, doc in (
        (FOLLOWER_RATE, "How many bytes a second a broker fetches for its throttled followers, all together."),
        (LEADER_RATE, "How many bytes a second a broker sends to others for its throttled leaders, all together."),
        (MOVE_RATE, "How many bytes a second a broker copies between its log directories for replicas that move."),
    )
)
"""What no file can set: only a running broker takes it."""


class ReplicationQuota:
    """The bound for one direction. Times are any that go on steadily."""

    def __init__(self, window_num: int = 11, window_ms: int = 1000) -> None:
        self.bytes_per_second = UNLIMITED
        self._rate = SampledRate(window_num, window_ms)

    def record(self, size: int, now_ms: float) -> None:
        """So many bytes of a throttled replica went over the network."""
        self._rate.record(size, now_ms)

    def is_exceeded(self, now_ms: float) -> bool:
        """Whether it was too fast, of late. What came in less than a window counts as if it had taken one."""
        if self.bytes_per_second == UNLIMITED:
            return False
        size, elapsed_ms = self._rate.measure(now_ms)
        return 1000 * size > self.bytes_per_second * max(elapsed_ms, self._rate.window_ms)


def is_throttled(replicas: tuple[str, ...], partition: int, broker_id: int) -> bool:
    """Whether a topic's list names a replica, or all of them."""
    return bool(replicas) and (_ALL in replicas or (partition, broker_id) in _pairs(replicas))


@functools.lru_cache(maxsize=16)
def _pairs(replicas: tuple[str, ...]) -> frozenset[tuple[int, int]]:
    """Read `partition:broker` items: once for all partitions of a topic, of which there may be thousands."""
    pairs = (item.split(":") for item in replicas if item)
    return frozenset((int(partition), int(broker_id)) for partition, broker_id in pairs)
