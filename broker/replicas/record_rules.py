"""The rules that produced batches of a topic are checked against, from its configs.

Must not know partitions. Counterpart in Kafka: LogConfig, as LogValidator reads it.
"""

from collections.abc import Mapping
from typing import Final

from ottla.log.config import LogConfig
from ottla.wire.records.batch import Compression, RecordRules, TimestampType

# By the values of `compression.type`.
_CODECS: Final[Mapping[str, Compression | None]] = {
    "producer": None,
    "uncompressed": Compression.NONE,
    "gzip": Compression.GZIP,
    "snappy": Compression.SNAPPY,
    "lz4": Compression.LZ4,
    "zstd": Compression.ZSTD,
}


def record_rules(config: LogConfig) -> RecordRules:
    """Return the rules of a topic."""
    compression_type = config.values["compression.type"]
    return RecordRules(
        compacted=config.compact,
        timestamp_type=TimestampType.LOG_APPEND_TIME if config.log_append_time else TimestampType.CREATE_TIME,
        before_max_ms=config.timestamp_before_max_ms,
        after_max_ms=config.timestamp_after_max_ms,
        max_message_bytes=config.max_message_bytes,
        compression=_CODECS[compression_type],
        compression_level=config.values.get(f"compression.{compression_type}.level"),
    )
