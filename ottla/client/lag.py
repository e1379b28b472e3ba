"""The lag of a group in a partition: in records, and in seconds.

PURE: plain values in, numbers out, because commands, metrics and console show the same lag. Must not know how offsets
and timestamps are found. Counterpart in Kafka: the column LAG of ConsumerGroupCommand, which has no seconds.
"""

from collections.abc import Iterable
from typing import Final, NamedTuple

NOTHING_UNREAD: Final = -2
"""In place of a timestamp: after the committed offset there are transaction markers, and no record."""
_MS: Final = 1000


class Lag(NamedTuple):
    """A lag; None: unknown."""

    records: int | None
    seconds: float | None


def lag_of(
    committed: int | None,
    log_start: int | None,
    log_end: int | None,
    first_unread_ms: int | None,
    now_ms: int,
) -> Lag:
    """Return the lag of a group that continues at `committed`, in a log that ends before `log_end`.

    `first_unread_ms` is the timestamp of the first record at or after `committed`. The lag in seconds is the age of
    that record: 0 without lag, and unknown if retention removed the record or the record has no timestamp.
    """
    if committed is None or log_end is None:
        return Lag(None, None)
    if committed >= log_end or first_unread_ms == NOTHING_UNREAD:
        return Lag(max(0, log_end - committed), 0.0)
    is_gone = log_start is not None and committed < log_start
    if is_gone or first_unread_ms is None or first_unread_ms < 0:
        return Lag(log_end - committed, None)
    return Lag(log_end - committed, max(0, now_ms - first_unread_ms) / _MS)


def total(lags: Iterable[Lag]) -> Lag:
    """Return the lag of several partitions: the sum of their records, and the largest known lag in seconds."""
    found = list(lags)
    records = [each.records for each in found if each.records is not None]
    seconds = [each.seconds for each in found if each.seconds is not None]
    return Lag(sum(records) if records else None, max(seconds, default=None))
