"""kafka-dump-log: print the files of a log directory, and check indexes against their segment.

Counterparts: org.apache.kafka.tools.DumpLogSegments, kafka.tools.DumpLogSegments.
"""

from collections.abc import Sequence
from pathlib import Path
from typing import Final

from crc32c import crc32c

from ottla.scripts.dump_log import (
    Batch,
    aborted_transactions,
    batches,
    control_type,
    coordinator_epoch,
    snapshot_entries,
)
from ottla.scripts.kafka.face import Face, JavaError, ToolExit, as_java
from ottla.scripts.kafka.flags import (
    HELP,
    VERSION,
    Flag,
    Parsed,
    check_required,
    flag,
    maybe_print_help_or_version,
    parse,
)
from ottla.scripts.kafka.java.numbers import INTEGER
from ottla.scripts.kafka.records.dump_log_indexes import Findings, IndexDump, offset_in_name, opened
from ottla.scripts.kafka.records.dump_log_parsers import Parser, parser_of, refused_decoder
from ottla.wire.errors import KafkaError
from ottla.wire.records.batch import Record, TimestampType
from ottla.wire.records.batch_header import increment_sequence
from ottla.wire.records.builder import ControlType

_MAX_INT: Final = 0x7FFFFFFF
_TEXT: Final = "org.apache.kafka.tools.api.StringDecoder"
_TIMESTAMPS: Final = {TimestampType.CREATE_TIME: "CreateTime", TimestampType.LOG_APPEND_TIME: "LogAppendTime"}
_SNAPSHOT_VERSION: Final = 1
_SNAPSHOT_HEAD: Final = 10
_PLACES_IN_CHECKPOINT: Final = ((0, 20), (21, 31))
"""The places of the end offset and the epoch in the name of a KRaft snapshot."""
_FLAGS: Final[Sequence[Flag]] = (
    HELP,
    VERSION,
    flag("print-data-log", help="Print keys and values; any decoder implies it."),
    flag("verify-index-only", help="Check indexes and do not print them."),
    flag("index-sanity-check", help="Make the checks of a broker's start, and do not print indexes."),
    flag("files", argument="file1, file2, ...", help="The files, with commas between them (required)."),
    flag(
        "max-message-size", argument="size", help="Bytes of the largest batch.", type=INTEGER.convert, default=5 << 20
    ),
    flag("max-bytes", argument="size", help="Read no more of a segment.", type=INTEGER.convert, default=_MAX_INT),
    flag("deep-iteration", help="Print records too; --print-data-log implies it."),
    flag(
        "value-decoder-class", argument="String", help="The class for values.", default=_TEXT, is_optional_argument=True
    ),
    flag("key-decoder-class", argument="String", help="The class for keys.", default=_TEXT, is_optional_argument=True),
    flag("offsets-decoder", help="Decode the records of __consumer_offsets."),
    flag("transaction-log-decoder", help="Decode the records of __transaction_state."),
    flag("cluster-metadata-decoder", help="Not supported."),
    flag("remote-log-metadata-decoder", help="Not supported."),
    flag("skip-record-metadata", help="Print nothing of records but keys and values."),
)
_NEWER: Final = (flag("share-group-state-decoder", help="Not supported."),)
_ABOUT: Final = (
    "This tool helps to parse a log file and dump its contents to the console, useful for debugging a seemingly "
    "corrupt log segment."
)
_WITH_CONTENTS: Final = (
    "print-data-log",
    "offsets-decoder",
    "transaction-log-decoder",
    "value-decoder-class",
    "key-decoder-class",
)


def main(arguments: Sequence[str], face: Face) -> int:
    """Run the tool."""
    flags = _FLAGS if face.is_3_9 else (*_FLAGS, *_NEWER)
    parsed = parse(flags, arguments)
    maybe_print_help_or_version(face, flags, parsed, arguments, _ABOUT)
    check_required(face, flags, parsed, "files")
    refused = refused_decoder(parsed)
    if refused:
        face.complain(f"--{refused} is not supported: records of groups and of transactions can be decoded.")
        raise ToolExit(1)
    findings = Findings()
    dump = _Dump(parsed, face, findings)
    for name in parsed.value("files").rstrip(",").split(","):
        dump.file(name)
    findings.print(face)
    return 0


class _Dump:
    """Prints one file after the other."""

    def __init__(self, parsed: Parsed, face: Face, findings: Findings) -> None:
        self._parsed = parsed
        self._face = face
        self._findings = findings
        self._has_contents = any(map(parsed.has, _WITH_CONTENTS))
        self._has_records = self._has_contents or parsed.has("deep-iteration")
        self._has_metadata = not parsed.has("skip-record-metadata")
        self._indexes = IndexDump(
            face,
            findings,
            is_sanity_check=parsed.has("index-sanity-check"),
            is_quiet=parsed.has("verify-index-only"),
        )

    def file(self, name: str) -> None:
        """Print a file by the suffix of its name."""
        path = Path(name)
        self._face.print(f"Dumping {path}")
        if "." not in path.name and self._face.is_3_9:
            size = len(path.name)
            text = f"begin -1, end {size}, length {size}"
            raise JavaError("java.lang.StringIndexOutOfBoundsException", text)
        match "." + path.name.rpartition(".")[2]:
            case ".log" | ".checkpoint" if "." in path.name:
                self._log(path, parser_of(self._parsed, self._face), self._parsed.value("max-bytes"))
            case ".index":
                self._indexes.offsets(path, self._parsed.value("max-message-size"))
            case ".timeindex":
                self._indexes.times(path)
            case ".snapshot":
                self._snapshot(path)
            case ".txnindex":
                self._aborted(path)
            case _:
                self._face.complain(f"Ignoring unknown file {path}")

    # Segments

    def _log(self, path: Path, parser: Parser, most_bytes: int) -> None:
        self._print_beginning(path)
        data = opened(path)[:most_bytes]
        end, last_offset = 0, -1
        try:
            for batch in batches(path, data):
                self._face.print(_batch_line(batch))
                if self._has_records:
                    last_offset = self._records(path, batch, parser, last_offset)
                end = batch.position + batch.header.size
        except KafkaError as error:
            raise as_java(error) from None
        if end < len(data) and most_bytes == _MAX_INT:
            self._face.print(f"Found {len(data) - end} invalid bytes at the end of {path.name}")

    def _print_beginning(self, path: Path) -> None:
        if path.suffix == ".log":
            self._face.print(f"Log starting offset: {offset_in_name(path)}")
        elif path.name == "bootstrap.checkpoint":
            self._face.print("KRaft bootstrap snapshot")
        else:
            offset, epoch = (_number(path.name, *place) for place in _PLACES_IN_CHECKPOINT)
            self._face.print(f"Snapshot end offset: {offset}, epoch: {epoch}")

    def _records(self, path: Path, batch: Batch, parser: Parser, last_offset: int) -> int:
        """Print the records of a batch, and return the offset of the last one."""
        for record in batch.records():
            is_first = self._face.is_3_9 and last_offset == -1
            if record.offset != last_offset + 1 and not is_first:
                self._findings.add(self._findings.gaps, path, last_offset, record.offset)
            last_offset = record.offset
            if self._has_metadata:
                self._face.print(self._metadata(batch, record), end="")
            contents = self._has_contents and not batch.header.is_control
            self._face.print(self._contents(parser, record) if contents else "")
        return last_offset

    def _metadata(self, batch: Batch, record: Record) -> str:
        header = batch.header
        has_sequence = header.base_sequence >= 0
        at = record.offset - header.base_offset
        text = (
            f"| offset: {record.offset} {_TIMESTAMPS[header.timestamp_type]}: {record.timestamp} "
            f"keySize: {_size(record.key)} valueSize: {_size(record.value)} "
            f"sequence: {increment_sequence(header.base_sequence, at) if has_sequence else -1} "
            f"headerKeys: [{','.join(key for key, _ in record.headers)}]"
        )
        if not header.is_control:
            return text
        kind, number = control_type(record)
        if kind in (ControlType.ABORT, ControlType.COMMIT):
            return f"{text} endTxnMarker: {kind.name} coordinatorEpoch: {coordinator_epoch(record)}"
        return f"{text} controlType: {kind.name}({number})"

    def _contents(self, parser: Parser, record: Record) -> str:
        key, value = parser(record)
        prefix = " " if self._has_metadata else "| "
        text = ""
        if key is not None:
            text, prefix = f"{prefix}key: {key}", " "
        if value is not None:
            # Kafka 3.9 prints the bar before keys only.
            text += f"{' ' if self._face.is_3_9 else prefix}payload: {value}"
        return text

    # Snapshots and transaction indexes

    def _snapshot(self, path: Path) -> None:
        data = opened(path)
        try:
            entries = snapshot_entries(path)
        except KafkaError as error:
            self._face.complain(_snapshot_fault(data, error, self._face))
            return
        for each in entries:
            start = each.current_txn_first_offset
            text = (
                f"producerId: {each.producer_id} producerEpoch: {each.producer_epoch} "
                f"coordinatorEpoch: {each.coordinator_epoch} currentTxnFirstOffset: {_optional(start)} "
                f"lastTimestamp: {each.timestamp}"
            )
            batch = ""
            if each.last_offset >= 0:
                batch = (
                    f"firstSequence: {increment_sequence(each.last_sequence, -each.offset_delta)} "
                    f"lastSequence: {each.last_sequence} lastOffset: {each.last_offset} "
                    f"offsetDelta: {each.offset_delta} timestamp: {each.timestamp}"
                )
            # Kafka 3.9 prints the blank in any case.
            self._face.print(f"{text} {batch}" if batch or self._face.is_3_9 else text)

    def _aborted(self, path: Path) -> None:
        offset_in_name(path)
        if not path.exists():
            return
        for each in aborted_transactions(path):
            self._face.print(
                f"version: {each.version} producerId: {each.producer_id} firstOffset: {each.first_offset} "
                f"lastOffset: {each.last_offset} lastStableOffset: {each.last_stable_offset}"
            )


def _number(name: str, begin: int, end: int) -> int:
    """Return the number in a part of a name. JavaError if there is none."""
    if len(name) < end:
        text = f"begin {begin}, end {end}, length {len(name)}"
        raise JavaError("java.lang.StringIndexOutOfBoundsException", text)
    if not name[begin:end].isdigit():
        raise JavaError("java.lang.NumberFormatException", f'For input string: "{name[begin:end]}"')
    return int(name[begin:end])


def _snapshot_fault(data: memoryview, error: KafkaError, face: Face) -> str:
    """Return the error of a snapshot of producers, in Kafka's words."""
    version, stored = int.from_bytes(data[:2], "big", signed=True), int.from_bytes(data[2:6], "big")
    computed = crc32c(bytes(data[6:]))
    if len(data) >= _SNAPSHOT_HEAD and version != _SNAPSHOT_VERSION:
        unknown = f"Snapshot contained an unknown file version {version}"
        return unknown if face.is_3_9 else f"Snapshot failed schema validation: {unknown}"
    if len(data) >= _SNAPSHOT_HEAD and stored != computed:
        return f"Snapshot is corrupt (CRC is no longer valid). Stored crc: {stored}. Computed crc: {computed}"
    return f"Snapshot failed schema validation: {error.detail}"


def _batch_line(batch: Batch) -> str:
    header = batch.header
    horizon = _optional(header.base_timestamp if header.has_delete_horizon else -1)
    return (
        f"baseOffset: {header.base_offset} lastOffset: {header.last_offset} count: {header.record_count} "
        f"baseSequence: {header.base_sequence} lastSequence: {header.last_sequence} producerId: {header.producer_id} "
        f"producerEpoch: {header.producer_epoch} partitionLeaderEpoch: {header.partition_leader_epoch} "
        f"isTransactional: {_boolean(header.is_transactional)} isControl: {_boolean(header.is_control)} "
        f"deleteHorizonMs: {horizon} position: {batch.position} {_TIMESTAMPS[header.timestamp_type]}: "
        f"{header.max_timestamp} size: {header.size} magic: {header.magic} "
        f"compresscodec: {header.compression.name.lower()} crc: {header.crc} isvalid: {_boolean(batch.is_valid)}"
    )


def _boolean(value: bool) -> str:
    return "true" if value else "false"


def _optional(number: int) -> str:
    """Return a number in Java's text of an OptionalLong; a negative one is empty."""
    return "OptionalLong.empty" if number < 0 else f"OptionalLong[{number}]"


def _size(data: bytes | None) -> int:
    return -1 if data is None else len(data)
