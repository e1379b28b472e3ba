"""Opening the log of a partition: loading the files after a clean shutdown, recovering them after a crash.

Owns the scan that checks every batch of a segment and rebuilds its indexes, and the replay of producer state. Must not
know how a log is used later. Counterpart in Kafka: LogLoader, LogSegment.recover, UnifiedLog.rebuildProducerState.
"""

import logging
import os
import zlib
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import NamedTuple

from crc32c import crc32c

from ottla.log.config import LogConfig
from ottla.log.new_log import NewLog
from ottla.log.segments.batch_order import certain_batches
from ottla.log.segments.crc import crc_of_range
from ottla.log.segments.index import MAX_RELATIVE_OFFSET, CorruptIndexError
from ottla.log.segments.open_files import OpenFiles
from ottla.log.segments.segment import INDEX_SUFFIX, LOG_SUFFIX, TIME_INDEX_SUFFIX, Segment
from ottla.log.segments.transaction_index import TRANSACTION_INDEX_SUFFIX, AbortedTransaction
from ottla.log.state.checkpoint import (
    LEADER_EPOCH_FILE,
    PARTITION_METADATA_FILE,
    CorruptCheckpointError,
    read_partition_metadata,
)
from ottla.log.state.leader_epochs import LeaderEpochs
from ottla.log.state.producer_state import ProducerState
from ottla.wire.errors import KafkaError
from ottla.wire.records.batch import HEADER_SIZE, LOG_OVERHEAD, BatchHeader
from ottla.wire.records.batch_header import ATTRIBUTES_POSITION, HEADER, MAGIC

_CHUNK = 1 << 20
_OLD_CRC_END = 16
_UNFINISHED_SUFFIXES = (".deleted", ".cleaned", ".swap")
_INDEX_SUFFIXES = (INDEX_SUFFIX, TIME_INDEX_SUFFIX, TRANSACTION_INDEX_SUFFIX)

logger = logging.getLogger("kafka.log.LogLoader")


class OldMessageFormatError(Exception):
    """A segment holds messages of format 0 or 1, which the broker neither serves nor cuts off."""


class LoadOptions(NamedTuple):
    """The checkpoints of the log directory for one log, and how to open the log."""

    config: LogConfig
    now_ms: int
    log_start_offset: int = 0
    recovery_point: int = 0
    clean: bool = True
    producer_id_expiration_ms: int = 86_400_000
    recovered: bool = False
    """Whether another process has recovered the log: no scan is needed, but nothing is flushed yet."""
    new: NewLog | None = None
    """The new log, None for a log with files."""
    was_compacted: bool = False


class LoadedLog(NamedTuple):
    """An opened log. The last segment is the active one."""

    segments: list[Segment]
    log_start_offset: int
    log_end_offset: int
    recovery_point: int
    leader_epochs: LeaderEpochs
    producers: ProducerState
    topic_id: bytes | None


def _take_new_log(new: NewLog, files: OpenFiles, options: LoadOptions) -> LoadedLog:
    epochs = LeaderEpochs(new.directory, ())
    producers = ProducerState(new.directory, options.producer_id_expiration_ms, ())
    segment = Segment(files, new.directory, 0, options.config, options.now_ms)
    segment.mark_unsynced()
    return LoadedLog([segment], 0, 0, 0, epochs, producers, new.topic_id)


def load_log(directory: Path, files: OpenFiles, options: LoadOptions) -> LoadedLog:
    """Load or recover the log in `directory`, which may be empty."""
    if options.new is not None:
        return _take_new_log(options.new, files, options)
    _complete_swaps(directory, files, options)
    epochs = _load_epochs(directory)
    producers = ProducerState(directory, options.producer_id_expiration_ms)
    segments = _find_segments(directory, files, options)
    recover_from = _first_to_recover(segments, options)
    for segment in segments[:recover_from]:
        _load_or_rebuild(segment)
    if not epochs.entries:
        # The file may be lost. Each batch has its epoch.
        for segment in segments[:recover_from]:
            for _, header in _readable_headers(segment, segment.base_offset):
                _note_epoch(epochs, header)
    if recover_from < len(segments):
        _recover(segments, recover_from, epochs, producers, options)
    log_end_offset = segments[-1].next_offset()[0] if segments else options.log_start_offset
    if segments and log_end_offset < options.log_start_offset:
        logger.error("Deleting all of %s, which ends at %d, below its log start offset", directory, log_end_offset)
        for segment in segments:
            segment.delete()
        segments.clear()
        epochs.clear()
        producers.truncate_fully(options.log_start_offset)
        log_end_offset = options.log_start_offset
    if segments:
        segments[-1].resize_indexes_to_max()
    else:
        segments.append(Segment(files, directory, log_end_offset, options.config, options.now_ms))
        segments[0].create()
    _load_transactions(directory, segments)
    log_start_offset = max(options.log_start_offset, segments[0].base_offset)
    epochs.save()
    epochs.truncate_from_end_unsaved(log_end_offset)
    epochs.truncate_from_start(log_start_offset)
    producers.remove_stray_snapshots(segment.base_offset for segment in segments)
    rebuild_producers(producers, segments, log_start_offset, log_end_offset, options.now_ms)
    flushed = options.clean and not options.recovered
    recovery_point = log_end_offset if flushed else min(options.recovery_point, log_end_offset)
    topic_id = _load_topic_id(directory)
    return LoadedLog(segments, log_start_offset, log_end_offset, recovery_point, epochs, producers, topic_id)


def _load_topic_id(directory: Path) -> bytes | None:
    """Return the topic id, None for a corrupt file too, because the controller sends the id again."""
    try:
        return read_partition_metadata(directory / PARTITION_METADATA_FILE)
    except CorruptCheckpointError as error:
        logger.error("%s; the broker takes the topic id from the controller", error)
        return None


def _load_epochs(directory: Path) -> LeaderEpochs:
    try:
        return LeaderEpochs(directory)
    except CorruptCheckpointError as error:
        logger.warning("Rebuilding the leader epochs from the batches: %s", error)
        (directory / LEADER_EPOCH_FILE).unlink()
        return LeaderEpochs(directory)


def _note_epoch(epochs: LeaderEpochs, header: BatchHeader) -> None:
    if header.partition_leader_epoch > epochs.latest:
        epochs.assign_unsaved(header.partition_leader_epoch, header.base_offset)


# Segments


def _find_segments(directory: Path, files: OpenFiles, options: LoadOptions) -> list[Segment]:
    """Remove index files without a log file; return all segments, none of them loaded."""
    names = {path.name for path in directory.iterdir()}
    for name in sorted(names):
        if name.endswith(_INDEX_SUFFIXES) and name.rpartition(".")[0] + LOG_SUFFIX not in names:
            logger.warning("Removing %s/%s, an index without a log", directory, name)
            (directory / name).unlink()
    offsets = sorted(int(name.removesuffix(LOG_SUFFIX)) for name in names if name.endswith(LOG_SUFFIX))
    return [Segment(files, directory, offset, options.config, options.now_ms) for offset in offsets]


def _first_to_recover(segments: Sequence[Segment], options: LoadOptions) -> int:
    """Return the slot of the first segment to scan: the one with the recovery point, or the last if it is damaged.

    After a clean shutdown the log must end at the recovery point. The last batch tells where the log ends.
    """
    if not options.clean:
        below = [slot for slot, segment in enumerate(segments) if segment.base_offset <= options.recovery_point]
        return below[-1] if below else 0
    if segments:
        last = segments[-1]
        _load_or_rebuild(last)
        try:
            log_end_offset, end = last.next_offset()
            if end == last.size and (options.recovered or options.recovery_point in (0, log_end_offset)):
                return len(segments)
        except KafkaError as error:
            logger.warning("%s", error)
        logger.warning("Recovering %s, which does not end as at the clean shutdown", last.file.path)
        return len(segments) - 1
    return 0


def _load_or_rebuild(segment: Segment) -> None:
    """Load a segment, or rebuild its indexes. A damaged segment stays and is served up to the damage."""
    try:
        segment.load()
    except (FileNotFoundError, CorruptIndexError) as error:
        logger.warning("Rebuilding the indexes of %s: %s", segment.file.path, error)
        whole = _scan_segment(segment)
        segment.become_inactive()
        if segment.size < whole:
            # The check before the first read finds the end of the sound batches again.
            logger.error("%s has no valid batch at position %d of %d", segment.file.path, segment.size, whole)
            segment.size = segment.found_bytes = whole
            segment.is_checked = False


def _recover(
    segments: list[Segment], first: int, epochs: LeaderEpochs, producers: ProducerState, options: LoadOptions
) -> None:
    """Scan all segments from `first` on; drop everything behind a corrupt batch or an empty segment.

    Deviation: Kafka goes on behind an empty segment, and serves a log with a gap. Only compaction leaves such gaps.
    """
    log_start_offset = max(options.log_start_offset, segments[0].base_offset)
    rebuild_producers(producers, segments[:first], log_start_offset, segments[first].base_offset, options.now_ms)
    count = len(segments) - first
    for slot in range(first, len(segments)):
        segment = segments[slot]
        producers.end_offset = max(producers.end_offset, segment.base_offset)
        producers.take_snapshot(sync=False)
        logger.info(
            "Recovering unflushed segment %d. %d/%d recovered for %s.",
            segment.base_offset,
            slot - first,
            count,
            Path(segment.file.path).parent.name,
        )
        is_last = slot + 1 == len(segments)
        end_offset = None if is_last else segments[slot + 1].base_offset
        cut = _recover_segment(segment, epochs, producers, end_offset, options.recovery_point if is_last else None)
        is_lost = not segment.size and not is_last and _must_hold_something(segment, options)
        if cut or is_lost:
            _log_cut(segment, cut, segments[slot + 1 :], options.recovery_point)
            for later in segments[slot + 1 :]:
                later.delete()
            del segments[slot + 1 :]
            return
    log_end_offset = segments[-1].next_offset()[0]
    if log_end_offset < options.recovery_point:
        _log_loss(segments[-1], log_end_offset, options.recovery_point)


def _log_cut(segment: Segment, cut: int, later: Sequence[Segment], recovery_point: int) -> None:
    """Log what is dropped. Dropping flushed records is an error, because the disk did not keep them."""
    logger.warning("Cut %d bytes behind the last valid batch of %s", cut, segment.file.path)
    for each in later:
        logger.warning("Removing %s, which follows a corrupt batch or an empty segment", each.file.path)
    log_end_offset = segment.next_offset()[0]
    if log_end_offset < recovery_point:
        _log_loss(segment, log_end_offset, recovery_point)


def _log_loss(segment: Segment, log_end_offset: int, recovery_point: int) -> None:
    logger.error(
        "%s: offsets %d to %d were flushed and cannot be read any more: the log ends before them",
        segment.file.path,
        log_end_offset,
        recovery_point - 1,
    )


def _must_hold_something(segment: Segment, options: LoadOptions) -> bool:
    """Whether an empty segment lost its batches: not if compaction may leave it, or below the recovery point."""
    is_compacted = options.was_compacted or options.config.compact
    return not is_compacted and segment.base_offset >= options.recovery_point


def _recover_segment(
    segment: Segment, epochs: LeaderEpochs, producers: ProducerState, end_offset: int | None, boundary: int | None
) -> int:
    """Check every batch, cut the file behind the last valid batch, rebuild the indexes; return the bytes cut."""
    cut = _scan_segment(segment, epochs, producers, end_offset, boundary) - segment.size
    if cut:
        _refuse_old_format(segment, cut)
        segment.truncate_file(segment.size)
    segment.become_inactive()
    return cut


def _scan_segment(
    segment: Segment,
    epochs: LeaderEpochs | None = None,
    producers: ProducerState | None = None,
    end_offset: int | None = None,
    boundary: int | None = None,
) -> int:
    """Check every batch and rebuild the indexes; return the size of the file. `segment.size` is the valid part.

    Updates `epochs` and `producers`, unless None. `end_offset`: the base offset of the next segment; `boundary`: an
    offset at which a batch ended.
    """
    segment.load_size()
    whole = segment.size
    segment.reset()
    if producers is not None:
        segment.transactions.delete()
    highest = segment.base_offset + MAX_RELATIVE_OFFSET
    if end_offset is not None:
        highest = min(highest, end_offset - 1)
    for position, header in certain_batches(_intact_batches(segment, whole), segment.base_offset, highest, boundary):
        segment.added(header.size, header.last_offset, header.max_timestamp)
        if epochs is not None and producers is not None:
            _note_epoch(epochs, header)
            aborted = _replay(producers, header, segment, position)
            if aborted is not None:
                segment.transactions.append(aborted)
    return whole


def _intact_batches(segment: Segment, end: int) -> Iterator[tuple[int, BatchHeader]]:
    """Return positions and headers of the batches before the first incomplete or corrupt batch."""
    fd = segment.file.open().fd
    buffer = bytearray(_CHUNK)
    view = memoryview(buffer)
    start = filled = position = 0
    unpack = HEADER.unpack_from
    while position + HEADER_SIZE <= end:
        at = position - start
        if at + HEADER_SIZE > filled:
            start, filled, at = position, os.preadv(fd, [view], position), 0
        header = BatchHeader._make(unpack(buffer, at))
        size = header.batch_length + LOG_OVERHEAD
        if size < HEADER_SIZE or position + size > end:
            return
        if at + size > filled and size <= _CHUNK:
            start, filled, at = position, os.preadv(fd, [view], position), 0
        whole = at + size <= filled
        crc = (
            crc32c(view[at + ATTRIBUTES_POSITION : at + size])
            if whole
            else crc_of_range(fd, position + ATTRIBUTES_POSITION, position + size)
        )
        if header.magic != MAGIC or crc != header.crc:
            return
        yield position, header
        position += size


def _refuse_old_format(segment: Segment, cut: int) -> None:
    """Raise OldMessageFormatError for a message of format 0 or 1 with a valid checksum; cut off anything else."""
    rest = os.pread(segment.file.open().fd, min(cut, _CHUNK), segment.size)
    if len(rest) > _OLD_CRC_END and rest[_OLD_CRC_END] in (0, 1):
        size = LOG_OVERHEAD + int.from_bytes(rest[LOG_OVERHEAD - 4 : LOG_OVERHEAD], "big", signed=True)
        crc = int.from_bytes(rest[LOG_OVERHEAD:_OLD_CRC_END], "big")
        if _OLD_CRC_END < size <= len(rest) and zlib.crc32(rest[_OLD_CRC_END:size]) == crc:
            raise OldMessageFormatError(f"{segment.file.path} holds messages of format {rest[_OLD_CRC_END]}")


# Producers


def rebuild_producers(
    producers: ProducerState, segments: Sequence[Segment], log_start_offset: int, log_end_offset: int, now_ms: int
) -> None:
    """Rebuild producer state up to `log_end_offset` from the newest snapshot and the batches behind it.

    Writes snapshots at the starts of the last two segments and at the end, so that the next rebuild is quick.
    """
    producers.truncate_and_reload(log_start_offset, log_end_offset, now_ms)
    if producers.end_offset < log_end_offset:
        worth_a_snapshot = {segment.base_offset for segment in segments[-2:]}
        from_offset = producers.end_offset
        for slot, segment in enumerate(segments):
            if slot + 1 < len(segments) and segments[slot + 1].base_offset <= from_offset:
                continue
            producers.end_offset = max(segment.base_offset, from_offset, log_start_offset)
            if segment.base_offset in worth_a_snapshot:
                producers.take_snapshot(sync=True)
            for position, header in _readable_headers(segment, producers.end_offset):
                _replay(producers, header, segment, position)
    producers.end_offset = log_end_offset
    producers.take_snapshot(sync=True)


def _readable_headers(segment: Segment, offset: int) -> Iterator[tuple[int, BatchHeader]]:
    """Return positions and headers from `offset` on, up to damage, which reads report as CORRUPT_MESSAGE."""
    try:
        position = segment.find(offset)
        if position is not None:
            yield from segment.headers(position)
    except KafkaError as error:
        logger.error("%s is damaged, its rest is ignored: %s", segment.file.path, error)


def _replay(
    producers: ProducerState, header: BatchHeader, segment: Segment, position: int
) -> AbortedTransaction | None:
    """Update the producer of one batch in the log; return the transaction that the batch aborts, or None."""
    aborted = None
    if header.has_producer_id:
        if header.is_control:
            batch = segment.read_batch(position, header)
            aborted = producers.end_transaction(header, batch, header.base_offset)
        else:
            producers.update(header, header.base_offset, header.max_timestamp)
    producers.end_offset = header.last_offset + 1
    return aborted


def _load_transactions(directory: Path, segments: Sequence[Segment]) -> None:
    """Load the transaction indexes; rebuild all from the batches if a file is corrupt."""
    try:
        for segment in segments:
            segment.transactions.load()
    except CorruptIndexError as error:
        logger.warning("Rebuilding the transaction indexes of %s: %s", directory, error)
        producers = ProducerState(directory, snapshots=())
        for segment in segments:
            segment.transactions.delete()
            for position, header in _readable_headers(segment, segment.base_offset):
                aborted = _replay(producers, header, segment, position)
                if aborted is not None:
                    segment.transactions.append(aborted)


# An interrupted compaction, of Kafka or of this broker


def _complete_swaps(directory: Path, files: OpenFiles, options: LoadOptions) -> None:
    """Remove .deleted and .cleaned files, and put compacted segments (.swap) in place."""
    paths = [path for path in directory.iterdir() if path.name.endswith(_UNFINISHED_SUFFIXES)]
    cleaned = [int(path.name.partition(".")[0]) for path in paths if path.suffix == ".cleaned"]
    swaps = []
    for path in paths:
        unfinished = path.suffix == ".swap" and cleaned and int(path.name.partition(".")[0]) >= min(cleaned)
        if path.suffix in (".deleted", ".cleaned") or unfinished:
            path.unlink()
        elif path.suffix == ".swap":
            swaps.append(path)
    logs = [path for path in swaps if path.stem.endswith(LOG_SUFFIX)]
    if logs:
        _remove_replaced(directory, logs, files, options)
    for path in swaps:
        path.replace(path.with_suffix(""))


def _remove_replaced(directory: Path, swaps: Sequence[Path], files: OpenFiles, options: LoadOptions) -> None:
    """Remove the segments that the swap files replace."""
    first = min(int(path.name.partition(".")[0]) for path in swaps)
    end = 0
    for path in swaps:
        segment = Segment(files, directory, int(path.name.partition(".")[0]), options.config, options.now_ms)
        segment.file.path = str(path)
        segment.load_size()
        for _, header in segment.headers(0):
            end = max(end, header.next_offset)
        segment.file.release()
    for path in list(directory.iterdir()):
        name = path.name.partition(".")[0]
        if path.suffix != ".swap" and name.isdigit() and first <= int(name) < end:
            path.unlink()
