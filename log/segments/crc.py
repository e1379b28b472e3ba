"""Checksums of what lies in a file. Counterpart in Kafka: none; it maps or reads whole batches."""

import os

from crc32c import crc32c

_PIECE = 1 << 20


def crc_of_range(fd: int, start: int, end: int) -> int:
    """CRC-32C of a part of a file, piece by piece; -1 where the file ends before."""
    crc = 0
    while start < end:
        piece = os.pread(fd, min(_PIECE, end - start), start)
        if not piece:
            return -1
        crc = crc32c(piece, crc)
        start += len(piece)
    return crc
