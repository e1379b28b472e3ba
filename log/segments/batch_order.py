"""The check that the offsets of batches follow each other.

Owns the checks of offsets, which no checksum covers. Must not know files.
Counterpart in Kafka: the check for rising offsets in LogSegment.recover, which finds less.

A base offset that is too low lies within the batch before. A base offset that is too high leaves a gap, and its batch
reaches into the next batch or over an offset at which a batch has ended. Compaction leaves gaps too, so a batch behind
a gap is certain only when the next batch fits.
"""

from collections.abc import Iterable, Iterator

from ottla.wire.records.batch import BatchHeader


def certain_batches(
    batches: Iterable[tuple[int, BatchHeader]], lowest: int, highest: int, boundary: int | None = None
) -> Iterator[tuple[int, BatchHeader]]:
    """Return the batches before the first batch with wrong offsets.

    All offsets lie between `lowest` and `highest`, both inclusive. `boundary`: an offset at which a batch has ended, if
    the batches reach it.
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
    # A batch may begin at the boundary behind a gap, because a truncation removed the batch that ended there.
    if held is not None and (
        boundary is None or not end_before_held < boundary < following or held[1].base_offset == boundary
    ):
        yield held
