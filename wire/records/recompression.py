"""The recompression of a produced batch to its topic's `compression.type`.

Owns the recompressed batch, and the estimate whether recompression blocks too long. Must not know whether the batch may
be appended. Counterpart in Kafka: `LogValidator.buildRecordsAndAssignOffsets`.

The records' bytes are copied, because they do not depend on the codec. Kafka encodes them again, with the same result
for clients' records. Kafka would also renumber compressed records; Ottla refuses records that are not numbered from 0.
"""

from itertools import chain

from ottla.wire.errors import ErrorCode, KafkaError
from ottla.wire.records.batch_header import (
    ATTRIBUTES_POSITION,
    CODEC_MASK,
    CRC_POSITION,
    HEADER,
    HEADER_SIZE,
    LOG_OVERHEAD,
    TIMESTAMP_TYPE_FLAG,
    TRANSACTIONAL_FLAG,
    checksum,
    parse_header,
)
from ottla.wire.records.compression import compress_pieces, decompress_pieces
from ottla.wire.records.validation import ProducedBatch, RecordRules, needs_offload

_INLINE_BYTES = 1 << 13
"""Every codec compresses so many bytes within a millisecond, at its highest level too."""
_KEPT_FLAGS = TIMESTAMP_TYPE_FLAG | TRANSACTIONAL_FLAG


def recompressed(batch: ProducedBatch, rules: RecordRules) -> ProducedBatch:
    """Return the valid batch in the topic's codec; itself if it has that codec. KafkaError: it is too large then."""
    header, codec = batch.header, rules.compression
    if codec is None or header.attributes & CODEC_MASK == codec:
        return batch
    pieces = decompress_pieces(header.compression, batch.data[HEADER_SIZE:])
    first, second = next(pieces), next(pieces, b"")
    size = -1 if second else len(first)
    data = bytearray(HEADER_SIZE)
    for piece in compress_pieces(codec, chain((first, second), pieces), rules.compression_level, size):
        data += piece
        # Checked for each piece, because at most max_message_bytes of it may be held.
        if len(data) > rules.max_message_bytes:
            detail = f"The record batch is larger than {rules.max_message_bytes} bytes in the topic's compression."
            raise KafkaError(ErrorCode.MESSAGE_TOO_LARGE, detail)
    attributes = header.attributes & _KEPT_FLAGS | codec
    HEADER.pack_into(data, 0, *header._replace(batch_length=len(data) - LOG_OVERHEAD, attributes=attributes))
    data[CRC_POSITION:ATTRIBUTES_POSITION] = checksum(data).to_bytes(4, "big")
    return ProducedBatch(parse_header(data), memoryview(data), batch.max_timestamp)


def recompression_needs_offload(records: memoryview, rules: RecordRules, batches: int = 1) -> bool:
    """Return whether `recompressed` of so many batches would block for more than about a millisecond."""
    if rules.compression is None or len(records) < HEADER_SIZE:
        return False
    if records[ATTRIBUTES_POSITION + 1] & CODEC_MASK == rules.compression:
        return False
    share = _INLINE_BYTES // batches
    return len(records) > share or needs_offload(records, share)
