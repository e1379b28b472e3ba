"""`ottla dump-log`: print the contents of files in a log directory.

Owns the reading of files, for both faces; no other command imports `ottla.log`. Must not change a file, nor connect to
a broker. Counterpart in Kafka: kafka-dump-log.sh.
"""

import base64
import mmap
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from struct import Struct
from typing import Any, Final, NamedTuple

import click

from ottla.log.segments.index import OFFSET_ENTRY, TIME_ENTRY
from ottla.log.state.checkpoint import CorruptCheckpointError, read_epochs, read_offsets, read_partition_metadata
from ottla.log.state.producer_snapshot import CorruptSnapshotError, SnapshotEntry, decode_snapshot
from ottla.scripts.terminal.options import prints_rows
from ottla.scripts.terminal.output import ERROR
from ottla.scripts.terminal.session import Session
from ottla.wire.errors import DecodeError, ErrorCode, KafkaError
from ottla.wire.internal.internal_records import DECODERS, UnknownRecordTypeError
from ottla.wire.records.batch import (
    BatchHeader,
    CorruptBatch,
    Record,
    TimestampType,
    iter_records,
    parse_header,
)
from ottla.wire.records.batch_header import LOG_OVERHEAD, MAGIC, MAGIC_POSITION, checksum, increment_sequence
from ottla.wire.records.builder import CONTROL_KEY, MARKER_VALUE, ControlType
from ottla.wire.uuids import uuid_text

_OFFSET_AND_SIZE: Final = Struct(">qi")
_LEAST_SIZE: Final = 14
"""The size of a record without key and value in the oldest format, in which a batch is one record."""
_ABORTED: Final = Struct(">hqqqq")


# Reading


class OldFormatError(KafkaError):
    """A batch in a format of Kafka before 0.11."""

    def __init__(self, magic: int) -> None:
        super().__init__(ErrorCode.UNSUPPORTED_FOR_MESSAGE_FORMAT, f"magic {magic} cannot be read, only magic {MAGIC}")


class Batch(NamedTuple):
    """A batch at its place in a file."""

    position: int
    header: BatchHeader
    data: memoryview

    @property
    def computed_crc(self) -> int:
        """Return the checksum of the bytes."""
        return checksum(self.data)

    @property
    def is_valid(self) -> bool:
        """Whether the header has the checksum of the bytes."""
        return self.header.crc == self.computed_crc

    def records(self) -> Iterator[Record]:
        """Yield the records. CorruptBatch at the first invalid one."""
        return iter_records(self.data)


class Aborted(NamedTuple):
    """An entry of a transaction index."""

    version: int
    producer_id: int
    first_offset: int
    last_offset: int
    last_stable_offset: int


def content(path: Path) -> memoryview:
    """Return the bytes of a file, mapped and not read yet."""
    with path.open("rb") as file:
        try:
            return memoryview(mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ))
        except ValueError:  # an empty file cannot be mapped
            return memoryview(b"")


def base_offset(path: Path) -> int:
    """Return the base offset in a file's name. ValueError if there is none."""
    return int(path.name.partition(".")[0])


def batches(path: Path, data: memoryview, start: int = 0) -> Iterator[Batch]:
    """Yield the whole batches from a position on. CorruptBatch for bytes that cannot be a batch."""
    position, end = start, len(data)
    while end - position > MAGIC_POSITION:
        size = _OFFSET_AND_SIZE.unpack_from(data, position)[1]
        if size < _LEAST_SIZE:
            raise CorruptBatch(
                f"Found record size {size} smaller than minimum record overhead ({_LEAST_SIZE}) in file {path}."
            )
        following = position + LOG_OVERHEAD + size
        if following > end:
            return
        magic = int.from_bytes(data[position + MAGIC_POSITION : position + MAGIC_POSITION + 1], "big", signed=True)
        if magic < MAGIC:
            raise OldFormatError(magic)
        yield Batch(position, parse_header(data, position), data[position:following])
        position = following


def offset_entries(path: Path) -> list[tuple[int, int]]:
    """Return offsets and positions, without the zeros after the last entry of an active segment."""
    data, base = content(path), base_offset(path)
    whole = data[: len(data) // OFFSET_ENTRY.size * OFFSET_ENTRY.size]
    return [(base + relative, position) for relative, position in OFFSET_ENTRY.iter_unpack(whole)]


def time_entries(path: Path) -> list[tuple[int, int]]:
    """Return timestamps and offsets, without the zeros after the last entry of an active segment."""
    data, base = content(path), base_offset(path)
    whole = data[: len(data) // TIME_ENTRY.size * TIME_ENTRY.size]
    return [(timestamp, base + relative) for timestamp, relative in TIME_ENTRY.iter_unpack(whole)]


def snapshot_entries(path: Path) -> list[SnapshotEntry]:
    """Return the producers of a snapshot. KafkaError if its checksum is wrong."""
    try:
        return decode_snapshot(path.read_bytes())
    except CorruptSnapshotError as error:
        raise KafkaError(ErrorCode.CORRUPT_MESSAGE, str(error)) from None


def aborted_transactions(path: Path) -> list[Aborted]:
    """Return the entries of a transaction index."""
    data = content(path)
    return [Aborted(*entry) for entry in _ABORTED.iter_unpack(data[: len(data) // _ABORTED.size * _ABORTED.size])]


def control_type(record: Record) -> tuple[ControlType, int]:
    """Return the type of a control record, and its number. CorruptBatch for an invalid key."""
    if record.key is None or len(record.key) < CONTROL_KEY.size:
        raise CorruptBatch("The key of a control record is too short")
    number = CONTROL_KEY.unpack_from(record.key)[1]
    return (ControlType(number) if number in ControlType._value2member_map_ else ControlType.UNKNOWN), number


def coordinator_epoch(record: Record) -> int:
    """Return the coordinator epoch in a transaction marker."""
    if record.value is None or len(record.value) < MARKER_VALUE.size:
        raise CorruptBatch("The value of a transaction marker is too short")
    epoch: int = MARKER_VALUE.unpack_from(record.value)[1]
    return epoch


# Ottla's face


class _Options(NamedTuple):
    """The options for records."""

    encoding: str
    decoder: str | None


Dump = Callable[[Session, Path, _Options], None]
_BATCH: Final = (
    "position", "size", "base_offset", "last_offset", "records", "base_sequence", "last_sequence", "producer_id",
    "producer_epoch", "leader_epoch", "transactional", "control", "timestamp_type", "max_timestamp", "delete_horizon",
    "compression", "crc",
)  # fmt: skip
_RECORD: Final = (
    "offset", "timestamp", "producer_id", "producer_epoch", "sequence", "key", "value", "headers", "control",
    "coordinator_epoch",
)  # fmt: skip
_PRODUCER: Final = (
    "producer_id", "producer_epoch", "coordinator_epoch", "start_offset", "last_timestamp", "first_sequence",
    "last_sequence", "last_offset", "offset_delta",
)  # fmt: skip
_TIMESTAMPS: Final = {TimestampType.CREATE_TIME: "create_time", TimestampType.LOG_APPEND_TIME: "log_append_time"}
_ENCODINGS: Final[Mapping[str, Callable[[bytes], str]]] = {
    "text": lambda data: data.decode("utf-8", "backslashreplace"),
    "hex": bytes.hex,
    "base64": lambda data: base64.b64encode(data).decode(),
}


@click.command("dump-log")
@click.argument(
    "files",
    nargs=-1,
    required=True,
    type=click.Path(exists=True, dir_okay=False, path_type=Path),
    metavar="FILE...",
)
@click.option("--records", "with_records", is_flag=True, help="Print the records of segments, not their batches.")
@click.option(
    "--bytes",
    "encoding",
    type=click.Choice(list(_ENCODINGS)),
    default="text",
    show_default=True,
    help="Print keys, values and headers of records in this encoding.",
)
@click.option(
    "--decode", type=click.Choice(list(DECODERS)), help="Print the records of Kafka's internal topics decoded."
)
@prints_rows
def dump_log(session: Session, files: Sequence[Path], with_records: bool, encoding: str, decode: str | None) -> None:
    """Print what files of a log directory hold.

    FILE is a segment (.log), one of its indexes (.index, .timeindex, .txnindex), a snapshot of producers (.snapshot), a
    checkpoint of offsets or of leader epochs, or partition.metadata. All files must be of one kind. The broker may run.
    """
    kinds = {_kind(path, with_records or decode is not None) for path in files}
    if len(kinds) > 1:
        raise click.UsageError(f"all files must be of one kind, but these are: {', '.join(sorted(kinds))}")
    session.run_local(_dump, files, kinds.pop(), _Options(encoding, decode))


def _kind(path: Path, with_records: bool) -> str:
    """Return the kind of a file by its name."""
    kind = path.name if path.name in _KINDS else path.suffix
    if path.name.endswith("-offset-checkpoint"):
        kind = "-offset-checkpoint"
    if kind not in _KINDS:
        raise click.UsageError(f"{path}: this file cannot be dumped; --help names those that can")
    if path.suffix == kind and not path.name.partition(".")[0].isdigit():
        raise click.UsageError(f"{path}: the name of a segment, index or snapshot must be an offset")
    return "records of .log" if kind == ".log" and with_records else kind


def _dump(session: Session, files: Sequence[Path], kind: str, options: _Options) -> None:
    columns, dump = _KINDS[kind]
    session.out.begin("file", *columns, *ERROR)
    for path in files:
        try:
            dump(session, path, options)
        except KafkaError as error:
            session.out.item(error, file=str(path))
        except CorruptCheckpointError as error:
            session.out.item(KafkaError(ErrorCode.CORRUPT_MESSAGE, str(error)), file=str(path))


def _batches(session: Session, path: Path, options: _Options) -> None:
    for batch in _whole(session, path):
        header = batch.header
        error = None
        if not batch.is_valid:
            text = f"the header has checksum {header.crc}, but the bytes have {batch.computed_crc}"
            error = KafkaError(ErrorCode.CORRUPT_MESSAGE, text)
        session.out.item(
            error,
            file=str(path),
            position=batch.position,
            size=header.size,
            base_offset=header.base_offset,
            last_offset=header.last_offset,
            records=header.record_count,
            base_sequence=_known(header.base_sequence),
            last_sequence=_known(header.last_sequence),
            producer_id=_known(header.producer_id),
            producer_epoch=_known(header.producer_epoch),
            leader_epoch=header.partition_leader_epoch,
            transactional=header.is_transactional,
            control=header.is_control,
            timestamp_type=_TIMESTAMPS[header.timestamp_type],
            max_timestamp=header.max_timestamp,
            delete_horizon=header.base_timestamp if header.has_delete_horizon else None,
            compression=header.compression.name.lower(),
            crc=header.crc,
        )


def _known(number: int) -> int | None:
    return None if number < 0 else number


def _whole(session: Session, path: Path) -> Iterator[Batch]:
    """Yield the batches of a segment. If bytes follow that are no whole batch, print an error for them."""
    data = content(path)
    end = 0
    for batch in batches(path, data):
        yield batch
        end = batch.position + batch.header.size
    if end < len(data):
        text = f"the last {len(data) - end} bytes, from position {end} on, are not a whole batch"
        session.out.item(KafkaError(ErrorCode.CORRUPT_MESSAGE, text), file=str(path), position=end)


def _records(session: Session, path: Path, options: _Options) -> None:
    for batch in _whole(session, path):
        try:
            for record in batch.records():
                _record(session, path, options, batch.header, record)
        except KafkaError as error:
            text = f"the batch at position {batch.position}: {error.detail}"
            session.out.item(KafkaError(error.code, text), file=str(path), offset=batch.header.base_offset)


def _record(session: Session, path: Path, options: _Options, header: BatchHeader, record: Record) -> None:
    encode = _ENCODINGS[options.encoding]
    row: dict[str, Any] = {
        "offset": record.offset,
        "timestamp": record.timestamp,
        "producer_id": _known(header.producer_id),
        "producer_epoch": _known(header.producer_epoch),
        "key": None if record.key is None else encode(record.key),
        "value": None if record.value is None else encode(record.value),
        "headers": [{"key": key, "value": None if value is None else encode(value)} for key, value in record.headers],
    }
    if header.base_sequence >= 0:
        row["sequence"] = increment_sequence(header.base_sequence, record.offset - header.base_offset)
    error = None
    if header.is_control:
        kind, _ = control_type(record)
        row["control"] = kind.name
        if kind in (ControlType.ABORT, ControlType.COMMIT):
            row["coordinator_epoch"] = coordinator_epoch(record)
    elif options.decoder is not None:
        error = _decode(options.decoder, record, row)
    session.out.item(error, file=str(path), **row)


def _decode(decoder: str, record: Record, row: dict[str, Any]) -> KafkaError | None:
    """Replace key and value by their decoded forms; if they cannot be decoded, leave them and return the error."""
    try:
        found = DECODERS[decoder](record.key or b"", record.value)
    except (UnknownRecordTypeError, DecodeError) as error:
        return KafkaError(ErrorCode.CORRUPT_MESSAGE, str(error))
    row["key"] = {"type": found.type, **found.key}
    row["value"] = None if found.value is None else {"version": found.version, **found.value}
    return None


def _offset_index(session: Session, path: Path, options: _Options) -> None:
    base = base_offset(path)
    for offset, position in offset_entries(path):
        if (offset, position) == (base, 0):
            return
        session.out.row(file=str(path), offset=offset, position=position)


def _time_index(session: Session, path: Path, options: _Options) -> None:
    base = base_offset(path)
    for timestamp, offset in time_entries(path):
        if (timestamp, offset) == (0, base):
            return
        session.out.row(file=str(path), timestamp=timestamp, offset=offset)


def _transaction_index(session: Session, path: Path, options: _Options) -> None:
    for each in aborted_transactions(path):
        session.out.row(file=str(path), **each._asdict())


def _snapshot(session: Session, path: Path, options: _Options) -> None:
    for each in snapshot_entries(path):
        has_batch = each.last_offset >= 0
        session.out.row(
            file=str(path),
            producer_id=each.producer_id,
            producer_epoch=each.producer_epoch,
            coordinator_epoch=_known(each.coordinator_epoch),
            start_offset=_known(each.current_txn_first_offset),
            last_timestamp=each.timestamp,
            first_sequence=increment_sequence(each.last_sequence, -each.offset_delta) if has_batch else None,
            last_sequence=each.last_sequence if has_batch else None,
            last_offset=each.last_offset if has_batch else None,
            offset_delta=each.offset_delta if has_batch else None,
        )


def _offsets(session: Session, path: Path, options: _Options) -> None:
    for partition, offset in read_offsets(path).items():
        session.out.row(file=str(path), topic=partition.topic, partition=partition.partition, offset=offset)


def _epochs(session: Session, path: Path, options: _Options) -> None:
    for each in read_epochs(path):
        session.out.row(file=str(path), leader_epoch=each.epoch, start_offset=each.start_offset)


def _metadata(session: Session, path: Path, options: _Options) -> None:
    topic_id = read_partition_metadata(path)
    session.out.row(file=str(path), topic_id=None if topic_id is None else uuid_text(topic_id))


_KINDS: Final[Mapping[str, tuple[Sequence[str], Dump]]] = {
    ".log": (_BATCH, _batches),
    "records of .log": (_RECORD, _records),
    ".index": (("offset", "position"), _offset_index),
    ".timeindex": (("timestamp", "offset"), _time_index),
    ".txnindex": (("producer_id", "first_offset", "last_offset", "last_stable_offset"), _transaction_index),
    ".snapshot": (_PRODUCER, _snapshot),
    "-offset-checkpoint": (("topic", "partition", "offset"), _offsets),
    "leader-epoch-checkpoint": (("leader_epoch", "start_offset"), _epochs),
    "partition.metadata": (("topic_id",), _metadata),
}
