"""The configuration of transactions and of the topic that keeps them.

Owns these keys. Must not know which code reads a value; the broker reads those of the topic itself. Counterparts in
Kafka: TransactionLogConfig, TransactionStateManagerConfig, AddPartitionsToTxnConfig.
"""

from collections.abc import Mapping
from typing import Any, Final, NamedTuple

from ottla.wire.config_def import ConfigDef, ConfigKey, ConfigType, Importance, at_least

_INT, _SHORT, _HIGH = ConfigType.INT, ConfigType.SHORT, Importance.HIGH
_POSITIVE = at_least(1)
_ANY_BROKER: Final = "cluster-wide"

VERIFICATION_KEY: Final = "transaction.partition.verification.enable"

TRANSACTION_CONFIG = ConfigDef(
    [
        ConfigKey(
            "transaction.abort.timed.out.transaction.cleanup.interval.ms",
            _INT,
            10_000,
            _POSITIVE,
            "How often the coordinator looks for transactions that are older than their timeout, and aborts them.",
            Importance.LOW,
        ),
        ConfigKey(
            "transaction.max.timeout.ms",
            _INT,
            900_000,
            _POSITIVE,
            "The longest transaction timeout that a producer may ask for.",
            _HIGH,
        ),
        ConfigKey(
            VERIFICATION_KEY,
            ConfigType.BOOLEAN,
            True,
            None,
            "Whether a leader asks the transaction coordinator before the first append of a transaction.",
            Importance.LOW,
            _ANY_BROKER,
        ),
        ConfigKey(
            "transaction.remove.expired.transaction.cleanup.interval.ms",
            _INT,
            3_600_000,
            _POSITIVE,
            "How often the coordinator looks for transactional ids that have expired.",
            Importance.LOW,
        ),
        ConfigKey(
            "transaction.state.log.load.buffer.size",
            _INT,
            5_242_880,
            _POSITIVE,
            "How much of `__transaction_state` is read at a time when its transactions are loaded.",
            _HIGH,
        ),
        ConfigKey(
            "transaction.state.log.min.isr",
            _INT,
            2,
            _POSITIVE,
            "`min.insync.replicas` of `__transaction_state`. Without ZooKeeper it is no more than its replicas.",
            _HIGH,
        ),
        ConfigKey(
            "transaction.state.log.num.partitions",
            _INT,
            50,
            _POSITIVE,
            "Partitions of `__transaction_state`. Must not change once the topic exists.",
            _HIGH,
        ),
        ConfigKey(
            "transaction.state.log.replication.factor",
            _SHORT,
            3,
            _POSITIVE,
            "Replicas of `__transaction_state`. The topic is not created before there are as many brokers. Without "
            "ZooKeeper it gets no more replicas than there are brokers.",
            _HIGH,
        ),
        ConfigKey(
            "transaction.state.log.segment.bytes",
            _INT,
            104_857_600,
            _POSITIVE,
            "The size of a segment of `__transaction_state`.",
            _HIGH,
        ),
        ConfigKey(
            "transactional.id.expiration.ms",
            _INT,
            604_800_000,
            _POSITIVE,
            "How long the coordinator keeps a transactional id that does nothing.",
            _HIGH,
        ),
    ]
)


class TransactionConfig(NamedTuple):
    """The values that decisions on transactions need."""

    max_timeout_ms: int = 900_000
    transactional_id_expiration_ms: int = 604_800_000
    abort_timed_out_interval_ms: int = 10_000
    remove_expired_interval_ms: int = 3_600_000


def read_transaction_config(values: Mapping[str, Any]) -> TransactionConfig:
    """Return these values out of the values of all keys."""
    return TransactionConfig(
        values["transaction.max.timeout.ms"],
        values["transactional.id.expiration.ms"],
        values["transaction.abort.timed.out.transaction.cleanup.interval.ms"],
        values["transaction.remove.expired.transaction.cleanup.interval.ms"],
    )
