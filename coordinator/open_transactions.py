"""The records of open transactions, while a partition of an internal topic is loaded.

Owns when they count: from their transaction's marker on, if it commits and no record in between has deleted their key.
Must not know what a record means: the shard compares the offsets of two records of a key. Counterpart in Kafka: the
pending offsets of GroupMetadataManager.doLoadGroupsAndOffsets.
"""

from collections.abc import Iterator

Written = dict[bytes, tuple[int, bytes]]
"""The offset and the value of each key's last record."""


class OpenTransactions:
    """The records of transactions whose marker was not read yet."""

    def __init__(self) -> None:
        self._written: dict[int, Written] = {}

    def __iter__(self) -> Iterator[tuple[int, Written]]:
        """Iterate over the open transactions: the id of each producer, and its records."""
        return iter(self._written.items())

    def write(self, producer_id: int, offset: int, key: bytes, value: bytes | None) -> None:
        """Add a record of a transaction. The value None cancels an earlier record of the same transaction."""
        written = self._written.setdefault(producer_id, {})
        written.pop(key, None)
        if value is not None:
            written[key] = offset, value

    def delete(self, key: bytes) -> None:
        """Drop the records of a key, because a record outside of transactions deletes it."""
        for written in self._written.values():
            written.pop(key, None)

    def end(self, producer_id: int, *, is_commit: bool) -> Written:
        """End a transaction. Returns the records that count from now on, in their order."""
        written = self._written.pop(producer_id, {})
        return written if is_commit else {}
