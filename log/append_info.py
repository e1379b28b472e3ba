"""The result of an append to the log of a partition.

Must not know how a log appends. Counterparts in Kafka: LogAppendInfo, UnexpectedAppendOffsetException.
"""

from ottla.wire.errors import ErrorCode, KafkaError


class UnexpectedAppendOffsetError(KafkaError):
    """A leader sent records that start before the end of this replica's log."""

    def __init__(self, detail: str, first_offset: int, last_offset: int) -> None:
        super().__init__(ErrorCode.UNKNOWN_SERVER_ERROR, detail)
        self.first_offset = first_offset
        self.last_offset = last_offset


class LogAppendInfo:
    """Offsets, time and size of an append as a leader."""

    __slots__ = ("first_offset", "is_duplicate", "last_offset", "log_append_time_ms", "log_start_offset", "size")

    def __init__(
        self,
        first_offset: int,
        last_offset: int,
        log_append_time_ms: int,
        log_start_offset: int,
        size: int,
        is_duplicate: bool = False,
    ) -> None:
        self.first_offset = first_offset
        self.last_offset = last_offset
        self.log_append_time_ms = log_append_time_ms
        self.log_start_offset = log_start_offset
        self.size = size
        self.is_duplicate = is_duplicate
