"""Do batches follow each other as appends put them?

Owns what their offsets tell beyond what their checksums cover. Must not know files.
Counterpart in Kafka: the check for rising offsets in LogSegment.recover, which sees less.

No checksum covers a batch's base offset. One that is too low lies within the batch before. One that is too high reaches
into the batch that follows, or over an offset at which a batch is known to have ended, and leaves a gap before itself.
Compaction leaves gaps too, so a batch behind a gap is certain only once something follows that fits.
"""

from collections.abc import Iterable, Iterator

from ottla.wire.record_batch import BatchHeader


def certain_batches(
    batches: Iterable[tuple[int, BatchHeader]], lowest: int, highest: int, boundary: int | None = None
) -> Iterator[tuple[int, BatchHeader]]:
    """The batches up to the first one that cannot stand where it does.

    All offsets lie between `lowest` and `highest`, both inclusive. At `boundary`, if the batches come that far, one
    has ended.
    """
    held: tuple[int, BatchHeader] | None = None
    end_before_held = following = lowest
    for position, header in batches:
        base_offset = header.base_offset
        last_offset = base_offset + header.last_offset_delta
        if base_offset < following:
            return
        if not base_offset <= last_offset <= highest:
            break
        if held is not None:
            yield held
            held = None
        if base_offset == following:
            yield position, header
        else:
            held = position, header
            end_before_held = following
        following = last_offset + 1
    # One that begins at the boundary may follow a truncation, which took the batch that had ended there.
    if held is not None and (
        boundary is None or not end_before_held < boundary < following or held[1].base_offset == boundary
    ):
        yield held
