"""Producer snapshot files: the producers of a partition at one offset.

Owns the bytes of <offset>.snapshot. Must not know the rules for sequences.
Counterpart in Kafka: ProducerStateManager.readSnapshot and writeSnapshot, ProducerSnapshot.json.
"""

import os
from collections.abc import Iterable
from pathlib import Path
from struct import Struct
from typing import NamedTuple

from crc32c import crc32c

SNAPSHOT_SUFFIX = ".snapshot"

_VERSION = 1
_HEAD = Struct(">hIi")  # version, crc of what follows the crc, number of entries
_CRC_END = 6
_ENTRY = Struct(">qhiqiqiq")


class CorruptSnapshotError(Exception):
    """A damaged snapshot file."""


class SnapshotEntry(NamedTuple):
    """One producer. The snapshot keeps only its last batch."""

    producer_id: int
    producer_epoch: int
    last_sequence: int
    last_offset: int
    offset_delta: int
    timestamp: int
    coordinator_epoch: int
    current_txn_first_offset: int


def encode_snapshot(entries: Iterable[SnapshotEntry]) -> bytes:
    """Return the content of the file."""
    packed = [_ENTRY.pack(*entry) for entry in entries]
    body = len(packed).to_bytes(4, "big") + b"".join(packed)
    return _VERSION.to_bytes(2, "big") + crc32c(body).to_bytes(4, "big") + body


def decode_snapshot(data: bytes) -> list[SnapshotEntry]:
    """Return the entries; CorruptSnapshotError if any byte is damaged."""
    if len(data) < _HEAD.size:
        raise CorruptSnapshotError(f"{len(data)} bytes")
    version, crc, count = _HEAD.unpack_from(data)
    if version != _VERSION:
        raise CorruptSnapshotError(f"unknown version {version}")
    if crc != crc32c(data[_CRC_END:]):
        raise CorruptSnapshotError("its CRC is no longer valid")
    if count < 0 or len(data) < _HEAD.size + count * _ENTRY.size:
        raise CorruptSnapshotError(f"{count} entries in {len(data)} bytes")
    return [SnapshotEntry._make(_ENTRY.unpack_from(data, _HEAD.size + slot * _ENTRY.size)) for slot in range(count)]


def snapshot_path(directory: Path, offset: int) -> Path:
    """Return the path of the snapshot at `offset`."""
    return directory / f"{offset:020d}{SNAPSHOT_SUFFIX}"


def write_snapshot(path: Path, entries: Iterable[SnapshotEntry], *, sync: bool) -> None:
    """Write the file. A crash may leave half of it, which the CRC detects."""
    with open(path, "wb") as file:
        file.write(encode_snapshot(entries))
        if sync:
            file.flush()
            os.fsync(file.fileno())
