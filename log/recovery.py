"""Opening the log of a partition: taking over what a clean shutdown left, or finding out what a crash left.

Owns the scan that checks every batch of a segment and rebuilds its indexes, and the replay of producer state. Must not
know how a log is used afterwards. Counterpart in Kafka: LogLoader, LogSegment.recover, UnifiedLog.rebuildProducerState.
"""

import logging
import os
import zlib
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import NamedTuple

from crc32c import crc32c

from ottla.log.checkpoint import (
    LEADER_EPOCH_FILE,
    PARTITION_METADATA_FILE,
    CorruptCheckpointError,
    read_partition_metadata,
)
from ottla.log.config import LogConfig
from ottla.log.index import MAX_RELATIVE_OFFSET, NO_TIMESTAMP, CorruptIndexError
from ottla.log.leader_epochs import LeaderEpochs
from ottla.log.new_log import NewLog
from ottla.log.open_files import OpenFiles
from ottla.log.producer_state import ProducerState
from ottla.log.segment import INDEX_SUFFIX, LOG_SUFFIX, TIME_INDEX_SUFFIX, Segment
from ottla.log.transaction_index import TRANSACTION_INDEX_SUFFIX, AbortedTransaction
from ottla.wire.batch_header import ATTRIBUTES_POSITION, HEADER, MAGIC
from ottla.wire.errors import KafkaError
from ottla.wire.record_batch import HEADER_SIZE, LOG_OVERHEAD, BatchHeader

_CHUNK = 1 << 20
_OLD_CRC_END = 16
_UNFINISHED_SUFFIXES = (".deleted", ".cleaned", ".swap")
_INDEX_SUFFIXES = (INDEX_SUFFIX, TIME_INDEX_SUFFIX, TRANSACTION_INDEX_SUFFIX)

logger = logging.getLogger("kafka.log.LogLoader")


class OldMessageFormatError(Exception):
    """A segment holds messages of format 0 or 1, which are neither served nor thrown away."""


class LoadOptions(NamedTuple):
    """What the checkpoints of the log directory say about one log, and how to open it."""

    config: LogConfig
    now_ms: int
    log_start_offset: int = 0
    recovery_point: int = 0
    clean: bool = True
    producer_id_expiration_ms: int = 86_400_000
    new: NewLog | None = None
    """What a log that has no files yet is to be."""
    was_compacted: bool = False


class LoadedLog(NamedTuple):
    """A log ready for use. The last segment is the active one."""

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
    """Open the log in `directory`, which may be empty."""
    if options.new is not None:
        return _take_new_log(options.new, files, options)
    _complete_swaps(directory, files, options)
    epochs = _load_epochs(directory)
    producers = ProducerState(directory, options.producer_id_expiration_ms)
    segments = _find_segments(directory, files, options)
    recover_from = _first_to_recover(segments, options)
    for segment in segments[:recover_from]:
        _load_or_rebuild(segment)
    if not epochs.entries and not options.clean:
        # The file of a log that crashed may be lost; each batch knows its epoch.
        for segment in segments[:recover_from]:
            for _, header in segment.headers(0):
                _note_epoch(epochs, header)
    if recover_from < len(segments):
        _recover(segments, recover_from, epochs, producers, options)
    log_end_offset = segments[-1].next_offset()[0] if segments else options.log_start_offset
    if segments and log_end_offset < options.log_start_offset:
        logger.warning("%s ends at %d, before its log start offset: it starts anew", directory, log_end_offset)
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
    recovery_point = log_end_offset if options.clean else min(options.recovery_point, log_end_offset)
    topic_id = read_partition_metadata(directory / PARTITION_METADATA_FILE)
    return LoadedLog(segments, log_start_offset, log_end_offset, recovery_point, epochs, producers, topic_id)


def _load_epochs(directory: Path) -> LeaderEpochs:
    try:
        return LeaderEpochs(directory)
    except CorruptCheckpointError as error:
        logger.warning("Leader epochs start anew: %s", error)
        (directory / LEADER_EPOCH_FILE).unlink()
        return LeaderEpochs(directory)


def _note_epoch(epochs: LeaderEpochs, header: BatchHeader) -> None:
    if header.partition_leader_epoch > epochs.latest:
        epochs.assign_unsaved(header.partition_leader_epoch, header.base_offset)


# Segments


def _find_segments(directory: Path, files: OpenFiles, options: LoadOptions) -> list[Segment]:
    """All segments, none of them loaded. Index files without a log go."""
    names = {path.name for path in directory.iterdir()}
    for name in sorted(names):
        if name.endswith(_INDEX_SUFFIXES) and name.rpartition(".")[0] + LOG_SUFFIX not in names:
            logger.warning("Removing %s/%s, an index without a log", directory, name)
            (directory / name).unlink()
    offsets = sorted(int(name.removesuffix(LOG_SUFFIX)) for name in names if name.endswith(LOG_SUFFIX))
    return [Segment(files, directory, offset, options.config, options.now_ms) for offset in offsets]


def _first_to_recover(segments: Sequence[Segment], options: LoadOptions) -> int:
    """Which segments need the scan: all from the recovery point on, or the last one if it is not as a log ends."""
    if not options.clean:
        below = [slot for slot, segment in enumerate(segments) if segment.base_offset <= options.recovery_point]
        return below[-1] if below else 0
    if segments:
        last = segments[-1]
        _load_or_rebuild(last)
        try:
            if last.next_offset()[1] == last.size:
                return len(segments)
        except KafkaError as error:
            logger.warning("%s", error)
        logger.warning("%s does not end with a whole batch in spite of a clean shutdown", last.file.path)
        return len(segments) - 1
    return 0


def _load_or_rebuild(segment: Segment) -> None:
    try:
        segment.load()
    except (FileNotFoundError, CorruptIndexError) as error:
        logger.warning("Rebuilding the indexes of %s: %s", segment.file.path, error)
        recover_segment(segment, None, None)


def _recover(
    segments: list[Segment], first: int, epochs: LeaderEpochs, producers: ProducerState, options: LoadOptions
) -> None:
    """Scan all segments from `first` on; behind a bad batch, or a segment without any, nothing stays.

    Deviation: Kafka goes on behind an empty segment, and serves a log with a gap. Compaction may leave one.
    """
    log_start_offset = max(options.log_start_offset, segments[0].base_offset)
    rebuild_producers(producers, segments[:first], log_start_offset, segments[first].base_offset, options.now_ms)
    count = len(segments) - first
    for slot in range(first, len(segments)):
        segment = segments[slot]
        producers.end_offset = max(producers.end_offset, segment.base_offset)
        producers.take_snapshot(sync=False)
        logger.info("Recovering %s, segment %d of %d to recover", segment.file.path, slot - first + 1, count)
        cut = recover_segment(segment, epochs, producers)
        is_lost = not segment.size and slot + 1 < len(segments) and _must_hold_something(segment, options)
        if cut or is_lost:
            logger.warning("Cut %d bytes behind the last valid batch of %s", cut, segment.file.path)
            for later in segments[slot + 1 :]:
                logger.warning("Removing %s, which follows a bad batch", later.file.path)
                later.delete()
            del segments[slot + 1 :]
            return


def _must_hold_something(segment: Segment, options: LoadOptions) -> bool:
    """Compaction leaves segments without a batch. What was in any other never came to the disk."""
    is_compacted = options.was_compacted or options.config.compact
    return not is_compacted and segment.base_offset >= options.recovery_point


def recover_segment(segment: Segment, epochs: LeaderEpochs | None, producers: ProducerState | None) -> int:
    """Check every batch, cut the file behind the last valid one and make the indexes anew; returns the bytes cut.

    Epochs and producers learn from the batches unless they are None.
    """
    segment.load_size()
    whole = segment.size
    segment.offset_index.create()
    segment.time_index.create()
    segment.size = 0
    segment.bytes_since_index = 0
    segment.max_timestamp, segment.offset_of_max_timestamp = NO_TIMESTAMP, segment.base_offset
    if producers is not None:
        segment.transactions.delete()
    for position, header in _valid_batches(segment, whole):
        segment.added(header.size, header.last_offset, header.max_timestamp)
        if epochs is not None and producers is not None:
            _note_epoch(epochs, header)
            aborted = replay(producers, header, segment, position)
            if aborted is not None:
                segment.transactions.append(aborted)
    cut = whole - segment.size
    if cut:
        _refuse_old_format(segment, cut)
        segment.truncate_file(segment.size)
    segment.become_inactive()
    return cut


def _valid_batches(segment: Segment, end: int) -> Iterator[tuple[int, BatchHeader]]:
    """Positions and headers up to the first batch that is not whole, not intact or not where it should be."""
    fd = segment.file.open().fd
    buffer = bytearray(_CHUNK)
    view = memoryview(buffer)
    start = filled = position = 0
    lowest, highest = segment.base_offset, segment.base_offset + MAX_RELATIVE_OFFSET
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
            else _crc_of_range(fd, position + ATTRIBUTES_POSITION, position + size)
        )
        last_offset = header.base_offset + header.last_offset_delta
        if header.magic != MAGIC or crc != header.crc or not lowest <= header.base_offset <= last_offset <= highest:
            return
        yield position, header
        lowest = last_offset + 1
        position += size


def _crc_of_range(fd: int, start: int, end: int) -> int:
    """CRC-32C of a batch larger than the buffer, piece by piece."""
    crc = 0
    while start < end:
        piece = os.pread(fd, min(_CHUNK, end - start), start)
        if not piece:
            return -1
        crc = crc32c(piece, crc)
        start += len(piece)
    return crc


def _refuse_old_format(segment: Segment, cut: int) -> None:
    """A message of format 0 or 1 proves itself by its own checksum; anything else is damage and may go."""
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
    """Bring producer state to `log_end_offset`: the newest snapshot, and what the log says behind it.

    Snapshots are left at the starts of the last two segments and at the end, so that the next time is quick.
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
            found = segment.find(producers.end_offset)
            for position, header in segment.headers(found) if found is not None else ():
                replay(producers, header, segment, position)
    producers.end_offset = log_end_offset
    producers.take_snapshot(sync=True)


def replay(producers: ProducerState, header: BatchHeader, segment: Segment, position: int) -> AbortedTransaction | None:
    """What one batch in the log says about its producer; returns a transaction that it says is aborted."""
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
    """Take over what is known of aborted transactions; if a file is damaged, the batches tell."""
    try:
        for segment in segments:
            segment.transactions.load()
    except CorruptIndexError as error:
        logger.warning("Rebuilding the transaction indexes of %s: %s", directory, error)
        producers = ProducerState(directory, snapshots=())
        for segment in segments:
            segment.transactions.delete()
            for position, header in segment.headers(0):
                aborted = replay(producers, header, segment, position)
                if aborted is not None:
                    segment.transactions.append(aborted)


# What an interrupted compaction of Kafka's leaves behind


def _complete_swaps(directory: Path, files: OpenFiles, options: LoadOptions) -> None:
    """Remove files that were on their way out, and put segments in place that compaction had finished (.swap)."""
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
    """Remove segments whose records the swap files hold now."""
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
