"""Parts of kafka-console-producer and kafka-console-consumer that no comparison with Kafka's tools reaches."""

import io
import json
import signal
import struct
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from ottla import Broker
from ottla.scripts.kafka.face import Face, JavaError, Release, ToolExit
from ottla.scripts.kafka.records.console_consumer_flags import read_options
from ottla.scripts.kafka.records.deserializers import deserializer
from ottla.scripts.kafka.records.formatters import formatter
from ottla.scripts.kafka.records.line_reader import LineMessageReader, LineRecord, Lines
from ottla.wire.internal.group_records import GroupMetadataKey, GroupMetadataValue, OffsetCommitKey, OffsetCommitValue
from ottla.wire.internal.transaction_records import TransactionLogKey, TransactionLogValue
from ottla.wire.records.batch import Record, build_batch, parse_header
from tests.scripts.running import PATIENCE_S, environment

PACKAGE = "org.apache.kafka.tools.consumer."
SERIALIZATION = "org.apache.kafka.common.serialization."
HEADER = parse_header(build_batch([Record(0, 1, None, None)]))
TOOL = (sys.executable, "-P", "-m", "ottla.scripts.kafka")


def printed(name: str, key: bytes | None, value: bytes | None, release: Release = Release.V4_3) -> str:
    """Return the output of one of Kafka's formatters for a record."""
    written: list[bytes] = []
    formatter(PACKAGE + name, {}, Face(release)).write(0, HEADER, Record(5, 1, key, value), written.append)
    return b"".join(written).decode()


# Lines


@pytest.mark.parametrize("step", [1, 2, 100])
def test_a_line_ends_like_in_java(step: int) -> None:
    data = b"a\nb\r\nc\rd\n\n\xff\r"
    lines = Lines()
    found = [line for at in range(0, len(data), step) for line in lines.feed(data[at : at + step])]
    assert [*found, *lines.end()] == ["a", "b", "c", "d", "", "\ufffd"]


def test_headers_are_separated_by_a_regular_expression() -> None:
    reader = LineMessageReader({"parse.headers": "TRUE ", "headers.separator": "[;|]"})
    assert reader.read("a:1;b:2|c:\tv") == LineRecord(None, b"v", [("a", b"1"), ("b", b"2"), ("c", b"")])


def test_an_error_names_the_line() -> None:
    reader = LineMessageReader({"parse.key": "true"})
    reader.read("k\tv")
    with pytest.raises(JavaError, match="No key separator found on line number 2: 'kv'"):
        reader.read("kv")


# Deserializers


@pytest.mark.parametrize(
    ("name", "data", "expected"),
    [
        ("String", "é".encode(), "é"),
        ("Boolean", b"\1", "true"),
        ("Short", b"\xff\xff", "-1"),
        ("Float", struct.pack(">f", 0.1), "0.1"),
        ("Float", struct.pack(">f", 1e10), "1.0E10"),
        ("Double", struct.pack(">d", -0.5), "-0.5"),
        ("UUID", b"1-2-3-4-5", "00000001-0002-0003-0004-000000000005"),
        ("Bytes", b"a\\\x00", "a\\x5C\\x00"),
        ("ByteBuffer", b"abc", "java.nio.HeapByteBuffer[pos=0 lim=3 cap=3]"),
    ],
)
def test_a_deserializer_prints_like_in_java(name: str, data: bytes, expected: str) -> None:
    assert deserializer(f"{SERIALIZATION}{name}Deserializer")(data) == expected


def test_an_unknown_class_is_refused_by_name() -> None:
    with pytest.raises(JavaError, match=r"com\.example\.Mine: no class of Java can run here"):
        deserializer("com.example.Mine")
    with pytest.raises(JavaError, match=r"com\.example\.Mine: no class of Java can run here"):
        formatter("com.example.Mine", {}, Face())


# Formatters of Kafka's internal topics

OFFSET_KEY = OffsetCommitKey(group="g", topic="t", partition=3).encode(0)
OFFSET_VALUE = OffsetCommitValue(offset=9, leader_epoch=1, metadata="", commit_timestamp=7).encode(3)
GROUP_KEY = GroupMetadataKey(group="g").encode(0)
GROUP_VALUE = GroupMetadataValue(protocol_type="consumer", generation=1, protocol=None, leader=None, members=[]).encode(
    3
)
TRANSACTION_KEY = TransactionLogKey(transactional_id="x").encode(0)
TRANSACTION_VALUE = TransactionLogValue(
    producer_id=1, producer_epoch=2, transaction_timeout_ms=3, transaction_status=0, transaction_partitions=None,
    transaction_last_update_timestamp_ms=4, transaction_start_timestamp_ms=-1,
).encode(0)  # fmt: skip


def prefixed(number: int, data: bytes) -> bytes:
    return number.to_bytes(2, "big") + data


def test_committed_offsets_are_json_with_their_type_and_before_4_0_with_their_version() -> None:
    key, value = prefixed(1, OFFSET_KEY), prefixed(3, OFFSET_VALUE)
    data = '"data":{"group":"g","topic":"t","partition":3}'
    there = '"value":{"version":3,"data":{"offset":9,"leaderEpoch":1,"metadata":"","commitTimestamp":7}}'
    new, old = (printed("OffsetsMessageFormatter", key, value, release) for release in (Release.V4_3, Release.V3_9))
    assert new == f'{{"key":{{"type":1,{data}}},{there}}}'
    assert old == f'{{"key":{{"version":1,{data}}},{there}}}'
    assert printed("OffsetsMessageFormatter", key, None).endswith('"value":null}')


def test_groups_and_offsets_have_their_own_formatters() -> None:
    group, offset = prefixed(2, GROUP_KEY), prefixed(1, OFFSET_KEY)
    found = json.loads(printed("GroupMetadataMessageFormatter", group, prefixed(3, GROUP_VALUE)))
    assert found["key"] == {"type": 2, "data": {"group": "g"}}
    assert found["value"]["data"]["members"] == []
    for release in Release:
        assert printed("GroupMetadataMessageFormatter", offset, None, release) == ""
        assert printed("OffsetsMessageFormatter", group, None, release) == ""


def test_transactions_are_printed() -> None:
    found = json.loads(
        printed("TransactionLogMessageFormatter", prefixed(0, TRANSACTION_KEY), prefixed(0, TRANSACTION_VALUE))
    )
    assert found["key"] == {"type": 0, "data": {"transactionalId": "x"}}
    assert (found["value"]["version"], found["value"]["data"]["producerId"]) == (0, 1)


def test_unknown_records_are_left_out_and_before_4_0_printed_as_unknown() -> None:
    later = prefixed(99, b"later")
    assert printed("OffsetsMessageFormatter", later, later) == ""
    assert printed("OffsetsMessageFormatter", None, b"") == ""
    old = printed("OffsetsMessageFormatter", later, later, Release.V3_9)
    assert old == '{"key":{"version":99,"data":"unknown"},"value":{"version":99,"data":"unknown"}}'
    assert printed("OffsetsMessageFormatter", None, None, Release.V3_9) == '{"key":null,"value":null}'


def test_an_unreadable_record_is_named() -> None:
    with pytest.raises(JavaError, match="Could not read record at offset 5"):
        printed("OffsetsMessageFormatter", prefixed(1, b"\0\xff"), None)


def test_the_old_names_of_formatters_are_known_before_4_0() -> None:
    err = io.StringIO()
    arguments = ["--topic", "t", "--bootstrap-server", "b:1", "--formatter", "kafka.tools.NoOpMessageFormatter"]
    read_options(arguments, Face(Release.V3_9, err=err))
    assert err.getvalue().startswith("WARNING: kafka.tools.NoOpMessageFormatter is deprecated")
    with pytest.raises(ToolExit):
        read_options(arguments, Face(err=err))


# On a broker


@pytest.fixture(scope="module")
def broker() -> Iterator[Broker]:
    with Broker() as running:
        yield running


@pytest.mark.slow
def test_the_consumer_prints_its_count_at_its_end(broker: Broker, tmp_path: Path) -> None:
    env = environment(tmp_path)
    produce = [*TOOL, "kafka-console-producer", "--bootstrap-server", broker.bootstrap, "--topic", "ended"]
    subprocess.run(produce, input=b"1\n2\n", env=env, check=True, timeout=PATIENCE_S)
    for number, code in ((signal.SIGINT, 130), (signal.SIGTERM, 143)):
        consume = [*TOOL, "kafka-console-consumer", "--bootstrap-server", broker.bootstrap, "--topic", "ended"]
        options = ["--from-beginning", "--group", f"g{number}", "--enable-systest-events"]
        with subprocess.Popen([*consume, *options], stdout=subprocess.PIPE, stderr=subprocess.PIPE, env=env) as process:
            assert process.stdout is not None
            assert process.stderr is not None
            assert [process.stdout.readline() for _ in range(2)] == [b"1\n", b"2\n"]
            process.send_signal(number)
            assert process.wait(PATIENCE_S) == code
            assert process.stdout.read() == b"shutdown_complete\n"
            assert process.stderr.read().endswith(b"Processed a total of 2 messages\n")


@pytest.mark.slow
def test_a_failed_record_is_logged_without_an_effect_on_the_exit_code(broker: Broker, tmp_path: Path) -> None:
    produce = [*TOOL, "kafka-console-producer", "--bootstrap-server", broker.bootstrap, "--topic"]
    env = environment(tmp_path)
    ended = subprocess.run([*produce, "not a name"], input=b"x\n", env=env, capture_output=True, timeout=PATIENCE_S)
    assert ended.returncode == 0
    assert b"InvalidTopicException: Invalid topics: [not a name]" in ended.stderr
    sync = subprocess.run(
        [*produce, "not a name", "--sync"], input=b"x\n", env=env, capture_output=True, timeout=PATIENCE_S
    )
    assert sync.returncode == 1
    assert sync.stderr.startswith(b"java.util.concurrent.ExecutionException: org.apache.kafka.common.errors.Invalid")
