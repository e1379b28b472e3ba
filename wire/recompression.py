"""What a topic's `compression.type` makes of a batch that came in another codec.

Owns: the same records in one batch of the codec that the topic has, and whether making it takes long. Must not know:
whether the batch may be appended. Counterpart in Kafka: `LogValidator.buildRecordsAndAssignOffsets`.

Records are taken over as they are, bytes and all, since nothing in them depends on the codec. Kafka writes them anew,
which comes to the same for what clients send. It would also number compressed records anew, refused here as ever.
"""

from itertools import chain

from ottla.wire.batch_header import (
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
from ottla.wire.compression import compress_pieces, decompress_pieces
from ottla.wire.errors import ErrorCode, KafkaError
from ottla.wire.record_validation import ProducedBatch, RecordRules, needs_offload

_INLINE_BYTES = 1 << 13
"""What every codec compresses within a millisecond, at its highest level too."""
_KEPT_FLAGS = TIMESTAMP_TYPE_FLAG | TRANSACTIONAL_FLAG


def recompressed(batch: ProducedBatch, rules: RecordRules) -> ProducedBatch:
    """The valid batch in the topic's codec: itself if it has that. KafkaError if it is too large then."""
    header, codec = batch.header, rules.compression
    if codec is None or header.attributes & CODEC_MASK == codec:
        return batch
    pieces = decompress_pieces(header.compression, batch.data[HEADER_SIZE:])
    first, second = next(pieces), next(pieces, b"")
    size = -1 if second else len(first)
    data = bytearray(HEADER_SIZE)
    for piece in compress_pieces(codec, chain((first, second), pieces), rules.compression_level, size):
        data += piece
        # However far the records expand, no more of them is held than may be stored.
        if len(data) > rules.max_message_bytes:
            detail = f"The record batch is larger than {rules.max_message_bytes} bytes in the topic's compression."
            raise KafkaError(ErrorCode.MESSAGE_TOO_LARGE, detail)
    attributes = header.attributes & _KEPT_FLAGS | codec
    HEADER.pack_into(data, 0, *header._replace(batch_length=len(data) - LOG_OVERHEAD, attributes=attributes))
    data[CRC_POSITION:ATTRIBUTES_POSITION] = checksum(data).to_bytes(4, "big")
    return ProducedBatch(parse_header(data), memoryview(data), batch.max_timestamp)


def recompression_needs_offload(records: memoryview, rules: RecordRules, batches: int = 1) -> bool:
    """Whether `recompressed` of so many batches would hold up the caller for more than about a millisecond."""
    if rules.compression is None or len(records) < HEADER_SIZE:
        return False
    if records[ATTRIBUTES_POSITION + 1] & CODEC_MASK == rules.compression:
        return False
    share = _INLINE_BYTES // batches
    return len(records) > share or needs_offload(records, share)
