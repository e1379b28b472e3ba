"""Records as JSON are exact."""

import json
import random

import pytest

from ottla.scripts.terminal.records.formats import Shown
from ottla.scripts.terminal.records.json_lines import record_as_json, record_of_json
from ottla.scripts.terminal.records.reading import ReadRecord
from ottla.wire.records.batch import Record, TimestampType, build_batch, parse_header
from ottla.wire.types import TopicPartition

HEADER = parse_header(build_batch([Record(0, 1, None, None)], timestamp_type=TimestampType.LOG_APPEND_TIME))
ODD = (None, b"", b"text", "é\u2028\U0001f600".encode(), b"\xff\x00", b"\xed\xa0\x80", b"\x00\x1b")


def test_a_record_is_an_object_with_all_its_fields() -> None:
    record = Record(5, 77, b"k", b"\xff", (("h", None), ("h", b"")))
    assert record_as_json(Shown(TopicPartition("t", 1), HEADER, record)) == {
        "topic": "t",
        "partition": 1,
        "offset": 5,
        "timestamp": 77,
        "timestamp_type": "log_append_time",
        "key": "k",
        "value": {"base64": "/w=="},
        "headers": [{"key": "h", "value": None}, {"key": "h", "value": ""}],
    }


@pytest.mark.trials(few=100, soak=10_000)
def test_printed_records_are_read_exactly(trials: int) -> None:
    for _ in range(trials):
        key, value, one, other = (random.choice([*ODD, random.randbytes(8)]) for _ in range(4))
        headers = [("h", one), ("h", other), ("é", None)]
        record = Record(1, random.randrange(-1, 1 << 50), key, value, headers)
        line = json.dumps(record_as_json(Shown(TopicPartition("t", 4), HEADER, record)), ensure_ascii=False)
        assert record_of_json(line.encode()) == ReadRecord(value, key, headers, 4, record.timestamp)


def test_missing_fields_of_an_object_are_none() -> None:
    assert record_of_json(b'{"value": "v"}') == ReadRecord(b"v", None, [], None, None)


@pytest.mark.parametrize(
    "line",
    [
        b"not json",
        b"[]",
        b'{"key": "k"}',
        b'{"value": 1}',
        b'{"value": {"base64": "?"}}',
        b'{"value": {"base64": "", "more": 1}}',
        b'{"value": "v", "headers": {"a": "b"}}',
        b'{"value": "v", "headers": [["a", "b"]]}',
        b'{"value": "v", "partition": "0"}',
        b'{"value": "v", "partition": true}',
        b'{"value": "v", "timestamp": -2}',
        b'{"value": "\\ud800"}',
        b'\xff{"value": "v"}',
    ],
)
def test_an_invalid_record_is_refused(line: bytes) -> None:
    with pytest.raises(ValueError, match=r".+"):
        record_of_json(line)
