"""The partition of a record: by its key as in Kafka's Java client, or, without a key, by turns of so many bytes.

PURE but for chance, which is passed in. Counterparts in Kafka: BuiltInPartitioner, Utils.murmur2.
"""

from collections.abc import Callable, Sequence
from functools import lru_cache
from typing import Final

_SEED: Final = 0x9747B28C
_M: Final = 0x5BD1E995
_R: Final = 24
_MASK: Final = 0xFFFFFFFF
_POSITIVE: Final = 0x7FFFFFFF


@lru_cache(maxsize=4096)
def murmur2(data: bytes) -> int:
    """Return Java's hash of a key, as an unsigned number of 32 bits."""
    length = len(data)
    found = _SEED ^ length
    whole = length & ~3
    for at in range(0, whole, 4):
        k = int.from_bytes(data[at : at + 4], "little") * _M & _MASK
        k = (k ^ (k >> _R)) * _M & _MASK
        found = (found * _M & _MASK) ^ k
    if length > whole:
        found = (found ^ int.from_bytes(data[whole:], "little")) * _M & _MASK
    found = (found ^ (found >> 13)) * _M & _MASK
    return found ^ (found >> 15)


def partition_of_key(key: bytes, partitions: int) -> int:
    """Return the partition of a key."""
    return (murmur2(key) & _POSITIVE) % partitions


class StickyPartition:
    """The partition of records without a key, until it got so many bytes."""

    __slots__ = ("_available", "_bytes", "_choose", "_limit", "_partition")

    def __init__(self, available: Sequence[int], limit: int, choose: Callable[[Sequence[int]], int]) -> None:
        self._available = available
        self._limit = limit
        self._choose = choose
        self._partition = choose(available)
        self._bytes = 0

    def take(self, size: int) -> int:
        """Return the partition for a record of `size` bytes."""
        if self._bytes >= self._limit:
            self._partition = self._choose(self._available)
            self._bytes = 0
        self._bytes += size
        return self._partition
