"""The offsets committed in transactions, while a partition of __consumer_offsets is loaded.

Owns when they count: from their transaction's marker on, unless a newer offset counts by then. Must not know where the
records are. Counterpart in Kafka: the pending offsets of GroupMetadataManager.doLoadGroupsAndOffsets.
"""

from collections.abc import Iterator


class OpenTransactions:
    """The records of transactions whose marker was not read yet."""

    def __init__(self) -> None:
        self._written: dict[int, dict[bytes, tuple[int, bytes]]] = {}
        # The offsets of records that began to count while transactions were open.
        self._counted: dict[bytes, int] = {}

    def __iter__(self) -> Iterator[int]:
        """Iterate over the producers whose transactions are open."""
        return iter([each for each, written in self._written.items() if written])

    def write(self, producer_id: int, offset: int, key: bytes, value: bytes | None) -> None:
        """Add a record of a transaction. The value None cancels an earlier record of the same transaction."""
        written = self._written.setdefault(producer_id, {})
        written.pop(key, None)
        if value is not None:
            written[key] = offset, value

    def count(self, offset: int, key: bytes, value: bytes | None) -> None:
        """Let a record count. Older records of its key will not count, even if their marker comes later."""
        if self._written:
            self._counted.pop(key, None)
            if value is not None:
                self._counted[key] = offset

    def end(self, producer_id: int, *, is_committed: bool) -> dict[bytes, bytes]:
        """End a transaction. Returns the records that count from now on, in their order."""
        found: dict[bytes, bytes] = {}
        for key, (offset, value) in self._written.pop(producer_id, {}).items():
            if is_committed and self._counted.get(key, -1) < offset:
                self._counted[key] = offset
                found[key] = value
        if not self._written:
            self._counted.clear()
        return found
