"""`ottla dump-log` and Ottla's kafka-dump-log, on files of each kind."""

import base64
import io
import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner

from ottla.log.segments.index import OFFSET_ENTRY, TIME_ENTRY
from ottla.log.state.checkpoint import EpochEntry, write_epochs, write_offsets, write_partition_metadata
from ottla.log.state.producer_snapshot import SnapshotEntry, write_snapshot
from ottla.scripts.dump_log import dump_log
from ottla.scripts.kafka.face import Face, JavaError, Release, ToolExit
from ottla.scripts.kafka.tools import dump_log as kafka_tool
from ottla.wire.records.builder import ControlType, Record, build_batch, build_control_batch
from ottla.wire.records.compression import Compression
from ottla.wire.types import TopicPartition

SEGMENT = "00000000000000000010.log"
RECORDS = [
    Record(10, 1000, b"k", "naïve".encode(), (("h", b"1"), ("none", None))),
    Record(11, 1001, None, b"\xff\x00", ()),
    Record(12, 1002, b"gone", None, ()),
]


def batch(records: Sequence[Record], compression: Compression = Compression.NONE) -> bytes:
    """Return a batch of records with consecutive offsets."""
    return bytes(build_batch(records, compression=compression, base_offset=records[0].offset, leader_epoch=0))


def dumped(*arguments: str | Path, code: int = 0) -> list[dict[str, Any]]:
    """Return the printed items of a command."""
    ended = CliRunner().invoke(dump_log, [*map(str, arguments), "-o", "json"])
    assert ended.exit_code == code, ended.output
    items: list[dict[str, Any]] = json.loads(ended.stdout)["items"]
    return items


def lines(*arguments: str | Path, release: Release = Release.V4_3) -> tuple[str, str]:
    """Return the output of Ottla's kafka-dump-log on stdout and stderr."""
    out, err = io.StringIO(), io.StringIO()
    kafka_tool.main(list(map(str, arguments)), Face(release, out, err))
    return out.getvalue(), err.getvalue()


@pytest.fixture
def segment(tmp_path: Path) -> Path:
    path = tmp_path / SEGMENT
    path.write_bytes(batch(RECORDS, compression=Compression.GZIP))
    return path


def test_a_segment_is_printed_batch_by_batch(segment: Path) -> None:
    (item,) = dumped(segment)
    assert (item["file"], item["base_offset"], item["last_offset"], item["records"]) == (str(segment), 10, 12, 3)
    assert (item["position"], item["size"], item["compression"]) == (0, segment.stat().st_size, "gzip")
    assert (item["producer_id"], item["base_sequence"], item["error"]) == (None, None, None)


@pytest.mark.parametrize(
    ("encoding", "keys", "values"),
    [
        ("text", ["k", None, "gone"], ["naïve", "\\xff\x00", None]),
        ("hex", ["6b", None, "676f6e65"], ["6e61c3af7665", "ff00", None]),
        ("base64", ["aw==", None, "Z29uZQ=="], ["bmHDr3Zl", "/wA=", None]),
    ],
)
def test_records_are_printed_in_an_encoding(
    segment: Path, encoding: str, keys: list[str | None], values: list[str | None]
) -> None:
    items = dumped(segment, "--records", "--bytes", encoding)
    assert [item["offset"] for item in items] == [10, 11, 12]
    assert [item["key"] for item in items] == keys
    assert [item["value"] for item in items] == values
    assert items[0]["headers"][1] == {"key": "none", "value": None}


def test_records_of_groups_are_decoded_and_others_are_errors(tmp_path: Path) -> None:
    path = tmp_path / SEGMENT
    committed = base64.b64decode("AAMAAAAAAAAABQAAAAEAAAAAAAAAAAAH")
    key = b"\0\1\0\1g\0\1t\0\0\0\2"
    path.write_bytes(batch([Record(10, 0, key, committed), Record(11, 0, key, None), Record(12, 0, b"\0\x63", b"v")]))
    first, tombstone, unknown = dumped(path, "--decode", "offsets", code=1)
    assert first["key"] == {"type": 1, "group": "g", "topic": "t", "partition": 2}
    assert (first["value"]["version"], first["value"]["offset"]) == (3, 5)
    assert (tombstone["value"], tombstone["error"]) == (None, None)
    assert (unknown["error"], unknown["value"], "type 99" in unknown["message"]) == ("CORRUPT_MESSAGE", "v", True)


def test_the_marker_of_a_transaction_is_printed(tmp_path: Path) -> None:
    path = tmp_path / SEGMENT
    marker = build_control_batch(
        ControlType.ABORT, producer_id=5, producer_epoch=0, coordinator_epoch=7, timestamp=1000, base_offset=10
    )
    path.write_bytes(marker)
    (item,) = dumped(path, "--records")
    assert (item["control"], item["coordinator_epoch"], item["producer_id"]) == ("ABORT", 7, 5)


def test_a_wrong_checksum_and_an_incomplete_batch_are_errors(segment: Path) -> None:
    data = bytearray(segment.read_bytes())
    size = len(data)
    data[17] ^= 1
    segment.write_bytes(data + data[:-1])
    wrong, trailing = dumped(segment, code=1)
    assert (wrong["error"], wrong["base_offset"]) == ("CORRUPT_MESSAGE", 10)
    assert (trailing["error"], trailing["position"], str(size - 1) in trailing["message"]) == (
        "CORRUPT_MESSAGE",
        size,
        True,
    )


def test_zeros_after_the_batches_are_an_error(segment: Path) -> None:
    segment.write_bytes(segment.read_bytes() + bytes(100))
    good, zeros = dumped(segment, code=1)
    assert (good["error"], zeros["error"]) == (None, "CORRUPT_MESSAGE")


def test_an_older_format_is_refused(segment: Path) -> None:
    data = bytearray(segment.read_bytes())
    data[16] = 1
    segment.write_bytes(data)
    (item,) = dumped(segment, code=1)
    assert (item["error"], "magic 1" in item["message"]) == ("UNSUPPORTED_FOR_MESSAGE_FORMAT", True)


def test_an_empty_segment_has_no_rows(tmp_path: Path) -> None:
    path = tmp_path / SEGMENT
    path.touch()
    assert dumped(path) == []


def test_indexes_end_where_their_zeros_begin(tmp_path: Path) -> None:
    index, times = tmp_path / "00000000000000000010.index", tmp_path / "00000000000000000010.timeindex"
    index.write_bytes(OFFSET_ENTRY.pack(2, 500) + OFFSET_ENTRY.pack(4, 900) + bytes(80))
    times.write_bytes(TIME_ENTRY.pack(1000, 0) + TIME_ENTRY.pack(1005, 4) + bytes(120))
    assert [(item["offset"], item["position"]) for item in dumped(index)] == [(12, 500), (14, 900)]
    assert [(item["timestamp"], item["offset"]) for item in dumped(times)] == [(1000, 10), (1005, 14)]


def test_a_snapshot_is_printed(tmp_path: Path) -> None:
    path = tmp_path / "00000000000000000010.snapshot"
    write_snapshot(
        path, [SnapshotEntry(7, 1, 5, 9, 2, 1000, 3, -1), SnapshotEntry(8, 0, -1, -1, 0, 1001, -1, 4)], sync=False
    )
    first, second = dumped(path)
    assert (first["producer_id"], first["first_sequence"], first["last_sequence"]) == (7, 3, 5)
    assert (first["start_offset"], second["start_offset"]) == (None, 4)
    assert (second["last_offset"], second["coordinator_epoch"]) == (None, None)


def test_a_damaged_snapshot_is_an_error(tmp_path: Path) -> None:
    path = tmp_path / "00000000000000000010.snapshot"
    write_snapshot(path, [SnapshotEntry(7, 1, 5, 9, 2, 1000, 3, -1)], sync=False)
    path.write_bytes(path.read_bytes()[:-1] + b"\1")
    (item,) = dumped(path, code=1)
    assert item["error"] == "CORRUPT_MESSAGE"


def test_aborted_transactions_are_printed(tmp_path: Path) -> None:
    path = tmp_path / "00000000000000000010.txnindex"
    path.write_bytes(b"\0\0" + b"".join(number.to_bytes(8, "big") for number in (7, 10, 12, 11)))
    (item,) = dumped(path)
    assert (item["producer_id"], item["first_offset"], item["last_offset"], item["last_stable_offset"]) == (
        7,
        10,
        12,
        11,
    )


def test_checkpoints_and_metadata_are_printed(tmp_path: Path) -> None:
    offsets = tmp_path / "recovery-point-offset-checkpoint"
    epochs, metadata = tmp_path / "leader-epoch-checkpoint", tmp_path / "partition.metadata"
    write_offsets(offsets, {TopicPartition("t", 1): 5})
    write_epochs(epochs, [EpochEntry(2, 7)])
    write_partition_metadata(metadata, bytes(range(16)))
    assert dumped(offsets)[0] | {"file": ""} == {
        "file": "", "topic": "t", "partition": 1, "offset": 5, "error": None, "message": None,
    }  # fmt: skip
    assert (dumped(epochs)[0]["leader_epoch"], dumped(epochs)[0]["start_offset"]) == (2, 7)
    assert dumped(metadata)[0]["topic_id"] == "AAECAwQFBgcICQoLDA0ODw"
    epochs.write_text("frob\n")
    metadata.write_text("frob")
    assert dumped(metadata, code=1)[0]["error"] == "CORRUPT_MESSAGE"


@pytest.mark.parametrize(
    ("names", "reason"),
    [
        (["00000000000000000010.log", "00000000000000000010.index"], "all files must be of one kind"),
        (["frob.txt"], "this file cannot be dumped"),
        (["frob.log"], "must be an offset"),
    ],
)
def test_files_that_cannot_be_dumped_are_refused(tmp_path: Path, names: list[str], reason: str) -> None:
    paths = [tmp_path / name for name in names]
    for path in paths:
        path.touch()
    ended = CliRunner().invoke(dump_log, list(map(str, paths)))
    assert (ended.exit_code, reason in ended.output) == (2, True), ended.output


# Kafka's face


@pytest.mark.parametrize(
    "name", ["cluster-metadata-decoder", "remote-log-metadata-decoder", "share-group-state-decoder"]
)
def test_unknown_decoders_are_refused(segment: Path, name: str) -> None:
    out, err = io.StringIO(), io.StringIO()
    with pytest.raises(ToolExit) as caught:
        kafka_tool.main(["--files", str(segment), f"--{name}"], Face(Release.V4_3, out, err))
    assert (caught.value.code, name in err.getvalue(), out.getvalue()) == (1, True, "")


def test_an_index_that_is_not_whole_fails_the_sanity_check(segment: Path) -> None:
    index = segment.with_suffix(".index")
    index.write_bytes(OFFSET_ENTRY.pack(2, 0) + b"odd")
    with pytest.raises(JavaError, match="found 11 bytes which is neither positive nor a multiple of 8") as caught:
        lines("--files", index, "--index-sanity-check")
    assert caught.value.java_class.endswith("CorruptIndexException")
    # Unlike Kafka's tool, this one leaves the file as it is.
    assert index.stat().st_size == 11


def test_a_missing_index_is_not_created(segment: Path) -> None:
    with pytest.raises(JavaError, match="Invalid max index size: -1"):
        lines("--files", segment.with_suffix(".index"))
    assert not segment.with_suffix(".index").exists()


def test_an_older_format_ends_the_tool(segment: Path) -> None:
    data = bytearray(segment.read_bytes())
    data[16] = 1
    segment.write_bytes(data)
    with pytest.raises(JavaError, match="magic 1 cannot be read"):
        lines("--files", segment)


def test_names_of_kraft_snapshots_are_read(tmp_path: Path) -> None:
    path = tmp_path / "00000000000000000004-0000000001.checkpoint"
    path.touch()
    assert lines("--files", path)[0].splitlines()[1] == "Snapshot end offset: 4, epoch: 1"
    (tmp_path / "bootstrap.checkpoint").touch()
    assert lines("--files", tmp_path / "bootstrap.checkpoint")[0].splitlines()[1] == "KRaft bootstrap snapshot"


def test_errors_are_printed_after_all_files_in_the_order_of_each_release(tmp_path: Path) -> None:
    path = tmp_path / "00000000000000000000.log"
    path.write_bytes(b"".join(batch([Record(offset, 0, None, b"v")]) for offset in (0, 5, 9)))
    newer = lines("--files", path, "--deep-iteration")[1].splitlines()
    older = lines("--files", path, "--deep-iteration", release=Release.V3_9)[1].splitlines()
    assert newer == [f"Non-consecutive offsets in {path}", "  0 is followed by 5", "  5 is followed by 9"]
    assert older == [newer[0], newer[2], newer[1]]
