"""The newest offset of each key in a section of a log, in bounded memory.

Owns how keys are kept, and how many fit. Must not know records. Counterpart in Kafka: SkimpyOffsetMap.
"""

from hashlib import blake2b
from typing import Final

# Longer keys are kept as digests, which are longer than any key that is kept as it is: the two never meet.
_LONGEST_PLAIN: Final = 16
_DIGEST_SIZE: Final = 20
BYTES_PER_KEY: Final = 216
"""What a key takes at most, measured while the table grows. Kafka's flat table takes 24."""


def keys_that_fit(buffer_bytes: int, load_factor: float) -> int:
    """How many keys a map in so much memory may have; at least one, lest a cleaning never end."""
    return max(1, int(buffer_bytes // BYTES_PER_KEY * load_factor))


class OffsetMap:
    """Offsets rise from one `put` to the next."""

    __slots__ = ("_capacity", "_offsets", "latest_offset")

    def __init__(self, capacity: int) -> None:
        self._capacity = capacity
        self._offsets: dict[bytes, int] = {}
        self.latest_offset = -1
        """How far the section reaches, inclusive."""

    def __len__(self) -> int:
        return len(self._offsets)

    @property
    def is_full(self) -> bool:
        """Whether no other key fits; then not even one that is known is taken."""
        return len(self._offsets) >= self._capacity

    @property
    def utilization(self) -> float:
        """How full it is, from 0 to 1."""
        return len(self._offsets) / self._capacity

    def put(self, key: bytes, offset: int) -> None:
        """Note where a key was written last."""
        if len(key) > _LONGEST_PLAIN:
            key = blake2b(key, digest_size=_DIGEST_SIZE).digest()
        self._offsets[key] = self.latest_offset = offset

    def get(self, key: bytes) -> int:
        """The offset of a key, -1 if the section does not have it."""
        if len(key) > _LONGEST_PLAIN:
            key = blake2b(key, digest_size=_DIGEST_SIZE).digest()
        return self._offsets.get(key, -1)
