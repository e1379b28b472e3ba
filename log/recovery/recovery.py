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
    recovered: bool = False
    """Another process has scanned it just now: nothing needs to be scanned, and nothing is flushed by that."""
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
    if not epochs.entries:
        # The file may be lost; each batch knows its epoch.
        for segment in segments[:recover_from]:
            for _, header in _readable_headers(segment, segment.base_offset):
                _note_epoch(epochs, header)
    if recover_from < len(segments):
        _recover(segments, recover_from, epochs, producers, options)
    log_end_offset = segments[-1].next_offset()[0] if segments else options.log_start_offset
    if segments and log_end_offset < options.log_start_offset:
        logger.error("%s ends at %d, before its log start offset: it starts anew", directory, log_end_offset)
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
    """None where the file cannot be read, too: the controller tells the id again."""
    try:
        return read_partition_metadata(directory / PARTITION_METADATA_FILE)
    except CorruptCheckpointError as error:
        logger.error("%s", error)
        return None


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
    """Which segments need the scan: all from the recovery point on, or the last one if it is not as a log ends.

    After a clean shutdown the log ends where it was flushed to: its last batch may say where it stands, no other one.
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
        logger.warning("%s does not end as the log ended at its clean shutdown", last.file.path)
        return len(segments) - 1
    return 0


def _load_or_rebuild(segment: Segment) -> None:
    """Take over a segment. If its indexes have to be made anew and it is damaged, it stays and is read up to there."""
    try:
        segment.load()
    except (FileNotFoundError, CorruptIndexError) as error:
        logger.warning("Rebuilding the indexes of %s: %s", segment.file.path, error)
        whole = scan_segment(segment)
        segment.become_inactive()
        if segment.size < whole:
            # It is served as far as it is sound: a check of its headers will find where that ends.
            logger.error("%s has no valid batch at position %d of %d", segment.file.path, segment.size, whole)
            segment.size = segment.found_bytes = whole
            segment.is_checked = False


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
        logger.info(
            "Recovering unflushed segment %d. %d/%d recovered for %s.",
            segment.base_offset,
            slot - first,
            count,
            Path(segment.file.path).parent.name,
        )
        is_last = slot + 1 == len(segments)
        end_offset = None if is_last else segments[slot + 1].base_offset
        cut = recover_segment(segment, epochs, producers, end_offset, options.recovery_point if is_last else None)
        is_lost = not segment.size and not is_last and _must_hold_something(segment, options)
        if cut or is_lost:
            _tell_cut(segment, cut, segments[slot + 1 :], options.recovery_point)
            for later in segments[slot + 1 :]:
                later.delete()
            del segments[slot + 1 :]
            return
    log_end_offset = segments[-1].next_offset()[0]
    if log_end_offset < options.recovery_point:
        _tell_loss(segments[-1], log_end_offset, options.recovery_point)


def _tell_cut(segment: Segment, cut: int, later: Sequence[Segment], recovery_point: int) -> None:
    """Say what goes. What was flushed and goes all the same is an error: the disk did not keep it."""
    logger.warning("Cut %d bytes behind the last valid batch of %s", cut, segment.file.path)
    for each in later:
        logger.warning("Removing %s, which follows a bad batch", each.file.path)
    log_end_offset = segment.next_offset()[0]
    if log_end_offset < recovery_point:
        _tell_loss(segment, log_end_offset, recovery_point)


def _tell_loss(segment: Segment, log_end_offset: int, recovery_point: int) -> None:
    logger.error(
        "%s: offsets %d to %d were flushed and cannot be read any more: the log ends before them now",
        segment.file.path,
        log_end_offset,
        recovery_point - 1,
    )


def _must_hold_something(segment: Segment, options: LoadOptions) -> bool:
    """Compaction leaves segments without a batch. What was in any other never came to the disk."""
    is_compacted = options.was_compacted or options.config.compact
    return not is_compacted and segment.base_offset >= options.recovery_point


def recover_segment(
    segment: Segment,
    epochs: LeaderEpochs | None = None,
    producers: ProducerState | None = None,
    end_offset: int | None = None,
    boundary: int | None = None,
) -> int:
    """Check every batch, cut the file behind the last valid one and make the indexes anew; returns the bytes cut."""
    cut = scan_segment(segment, epochs, producers, end_offset, boundary) - segment.size
    if cut:
        _refuse_old_format(segment, cut)
        segment.truncate_file(segment.size)
    segment.become_inactive()
    return cut


def scan_segment(
    segment: Segment,
    epochs: LeaderEpochs | None = None,
    producers: ProducerState | None = None,
    end_offset: int | None = None,
    boundary: int | None = None,
) -> int:
    """Check every batch and make the indexes anew; returns the size of the file, of which `size` is valid.

    Epochs and producers learn from the batches unless they are None. `end_offset`: where the next segment begins;
    `boundary`: an offset at which a batch ended.
    """
    segment.load_size()
    whole = segment.size
    segment.start_anew()
    if producers is not None:
        segment.transactions.delete()
    highest = segment.base_offset + MAX_RELATIVE_OFFSET
    if end_offset is not None:
        highest = min(highest, end_offset - 1)
    for position, header in certain_batches(_intact_batches(segment, whole), segment.base_offset, highest, boundary):
        segment.added(header.size, header.last_offset, header.max_timestamp)
        if epochs is not None and producers is not None:
            _note_epoch(epochs, header)
            aborted = replay(producers, header, segment, position)
            if aborted is not None:
                segment.transactions.append(aborted)
    return whole


def _intact_batches(segment: Segment, end: int) -> Iterator[tuple[int, BatchHeader]]:
    """Positions and headers up to the first batch that is not whole or not intact."""
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
            for position, header in _readable_headers(segment, producers.end_offset):
                replay(producers, header, segment, position)
    producers.end_offset = log_end_offset
    producers.take_snapshot(sync=True)


def _readable_headers(segment: Segment, offset: int) -> Iterator[tuple[int, BatchHeader]]:
    """The batches from `offset` on. What is damaged ends them: it was flushed, and it is served as damaged."""
    try:
        position = segment.find(offset)
        if position is not None:
            yield from segment.headers(position)
    except KafkaError as error:
        logger.error("%s cannot be read to its end: %s", segment.file.path, error)


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
            for position, header in _readable_headers(segment, segment.base_offset):
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
