"""The newest offset of each key in a section of a log, in bounded memory.

Owns the form of the keys, and how many fit. Must not know records. Counterpart in Kafka: SkimpyOffsetMap.
"""

from hashlib import blake2b
from typing import Final

# Longer keys are kept as digests. A digest is longer than any plain key, so that the two never collide.
_LONGEST_PLAIN: Final = 16
_DIGEST_SIZE: Final = 20
BYTES_PER_KEY: Final = 216
"""The most bytes that a key takes, measured while the table grows. Kafka's flat table takes 24."""


def keys_that_fit(buffer_bytes: int, load_factor: float) -> int:
    """Return how many keys fit into `buffer_bytes`; at least one, so that a cleaning ends."""
    return max(1, int(buffer_bytes // BYTES_PER_KEY * load_factor))


class OffsetMap:
    """Offsets rise from one `put` to the next."""

    __slots__ = ("_capacity", "_offsets", "latest_offset")

    def __init__(self, capacity: int) -> None:
        self._capacity = capacity
        self._offsets: dict[bytes, int] = {}
        self.latest_offset = -1
        """The last offset of the section."""

    def __len__(self) -> int:
        return len(self._offsets)

    @property
    def is_full(self) -> bool:
        """Whether no more keys fit. A full map is not updated, even for known keys."""
        return len(self._offsets) >= self._capacity

    @property
    def utilization(self) -> float:
        """The used share of the map, from 0 to 1."""
        return len(self._offsets) / self._capacity

    def put(self, key: bytes, offset: int) -> None:
        """Set the newest offset of `key`."""
        if len(key) > _LONGEST_PLAIN:
            key = blake2b(key, digest_size=_DIGEST_SIZE).digest()
        self._offsets[key] = self.latest_offset = offset

    def get(self, key: bytes) -> int:
        """Return the newest offset of `key`, -1 if the section lacks it."""
        if len(key) > _LONGEST_PLAIN:
            key = blake2b(key, digest_size=_DIGEST_SIZE).digest()
        return self._offsets.get(key, -1)
