"""Checksums of parts of a file. Counterpart in Kafka: none, because Kafka maps or reads whole batches."""

import os

from crc32c import crc32c

_PIECE = 1 << 20


def crc_of_range(fd: int, start: int, end: int) -> int:
    """Return the CRC-32C of the bytes from `start` to `end`; -1 if the file ends before `end`."""
    crc = 0
    while start < end:
        piece = os.pread(fd, min(_PIECE, end - start), start)
        if not piece:
            return -1
        crc = crc32c(piece, crc)
        start += len(piece)
    return crc
