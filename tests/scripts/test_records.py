"""`ottla produce` and `ottla consume` on a real broker."""

import json
import random
import signal
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import confluent_kafka
import pytest

from ottla import Broker
from tests.scripts.odd_records import BASE_MS, odd_record
from tests.scripts.running import COMMAND, PATIENCE_S, Ended, environment, ottla, ottla_on_a_terminal

pytestmark = pytest.mark.slow
CODECS = ("none", "gzip", "snappy", "lz4", "zstd")


@pytest.fixture(scope="module")
def broker() -> Iterator[Broker]:
    # Without retention, because the records are of 2023.
    with Broker(log_retention_ms=-1) as running:
        yield running


@pytest.fixture
def env(tmp_path: Path) -> dict[str, str]:
    return environment(tmp_path)


class Commands:
    """The two commands on one broker."""

    def __init__(self, broker: Broker, env: dict[str, str]) -> None:
        self._where = ("-b", broker.bootstrap)
        self._env = env

    def create(self, topic: str, partitions: int = 1) -> None:
        created = ottla("topics", "create", topic, "-p", str(partitions), *self._where, env=self._env)
        assert created.code == 0, created

    def produce(self, topic: str, *options: str, stdin: str | bytes = b"") -> Ended:
        return ottla("produce", topic, *options, *self._where, stdin=stdin, env=self._env)

    def consume(self, *arguments: str) -> Ended:
        return ottla("consume", *arguments, *self._where, env=self._env)

    def read(self, topic: str, *options: str) -> list[dict[str, Any]]:
        """Return the JSON objects of all records of a topic."""
        ended = self.consume(topic, "-e", "-o", "ndjson", *options)
        assert ended.code == 0, ended
        # Not splitlines, because records may contain other line ends.
        return [json.loads(line) for line in ended.stdout.split("\n") if line]


@pytest.fixture
def commands(broker: Broker, env: dict[str, str]) -> Commands:
    return Commands(broker, env)


def without_place(record: dict[str, Any]) -> dict[str, Any]:
    return {name: each for name, each in record.items() if name not in ("topic", "offset")}


@pytest.mark.once
@pytest.mark.trials(few=1, soak=20)
@pytest.mark.parametrize("codec", CODECS)
def test_a_copy_by_pipe_is_exact(commands: Commands, codec: str, trials: int) -> None:
    for trial in range(trials):
        source, copy = f"source-{codec}-{trial}", f"copy-{codec}-{trial}"
        commands.create(source, 3)
        commands.create(copy, 3)
        records = [odd_record(3) for _ in range(200)]
        lines = "\n".join(json.dumps(each) for each in records)
        written = commands.produce(source, "--input", "ndjson", "-z", codec, stdin=lines)
        assert (written.code, sum(int(row[2]) for row in written.rows)) == (0, 200)
        printed = commands.consume(source, "-e", "-o", "ndjson").stdout
        assert commands.produce(copy, "--input", "ndjson", stdin=printed).code == 0
        read, copied = commands.read(source), commands.read(copy)
        for partition in range(3):
            expected = [{**each, "timestamp_type": "create_time"} for each in records if each["partition"] == partition]
            for found in (read, copied):
                mine = [each for each in found if each["partition"] == partition]
                assert [without_place(each) for each in mine] == expected
                assert [each["offset"] for each in mine] == list(range(len(mine)))


def test_records_of_a_stock_client_are_printed_byte_by_byte(
    commands: Commands, broker: Broker, env: dict[str, str]
) -> None:
    commands.create("stock")
    producer = confluent_kafka.Producer(
        {"bootstrap.servers": broker.bootstrap, "compression.type": "lz4", "log_level": 0}
    )
    values = [random.randbytes(50) for _ in range(20)]
    for value in values:
        producer.produce("stock", value, headers=[("h", b"\xff")])
    assert producer.flush(PATIENCE_S) == 0
    arguments = ("consume", "stock", "-e", "--format", "%V{big32}%v%h{%v}", "-b", broker.bootstrap)
    printed = subprocess.run(
        [*COMMAND, *arguments], capture_output=True, timeout=PATIENCE_S, env=env, check=True
    ).stdout
    assert printed == b"".join(len(value).to_bytes(4, "big") + value + b"\xff" for value in values)


def test_a_stock_client_reads_produced_records(commands: Commands, broker: Broker) -> None:
    commands.create("produced", 4)
    keys = [f"key-{number}" for number in range(50)]
    lines = "".join(f"{key}|{number}\n" for number, key in enumerate(keys))
    assert commands.produce("produced", "--key-separator", "|", "-H", "a=b", stdin=lines).code == 0
    consumer = confluent_kafka.Consumer(
        {"bootstrap.servers": broker.bootstrap, "group.id": "g", "auto.offset.reset": "earliest", "log_level": 0}
    )
    consumer.subscribe(["produced"])
    found: dict[str, int | None] = {}
    while len(found) < len(keys):
        for message in consumer.consume(len(keys), PATIENCE_S):
            assert message.headers() == [("a", b"b")]
            found[(message.key() or b"").decode()] = message.partition()
    consumer.close()
    # A stock client with Java's hash sends the same keys to the same partitions.
    stock = confluent_kafka.Producer(
        {"bootstrap.servers": broker.bootstrap, "partitioner": "murmur2_random", "log_level": 0}
    )
    other: dict[str, int | None] = {}

    def note(error: object, message: confluent_kafka.Message) -> None:
        other[(message.key() or b"").decode()] = message.partition()

    for key in keys:
        stock.produce("produced", b"", key, on_delivery=note)
    assert stock.flush(PATIENCE_S) == 0
    assert found == other


def test_lines_become_records_with_the_keys_and_headers_of_options(commands: Commands, tmp_path: Path) -> None:
    commands.create("lines", 2)
    options = ("-k", "K", "-H", "x=1", "-H", "x=", "-p", "1", "--tombstone", "--acks", "1", "--rate", "1000")
    ended = commands.produce("lines", *options, stdin="one\n\nthree")
    assert (ended.code, ended.rows, ended.stderr) == (
        0, [["lines", "1", "3", "0", "2", "-", "-"]], "ottla: 3 records written\n"
    )  # fmt: skip
    headers = [{"key": "x", "value": "1"}, {"key": "x", "value": ""}]
    found = commands.read("lines")
    assert [(each["key"], each["value"], each["headers"]) for each in found] == [
        ("K", "one", headers), ("K", None, headers), ("K", "three", headers)
    ]  # fmt: skip
    (tmp_path / "a").write_text("a1\na2")
    (tmp_path / "b").write_text("b1\n")
    assert commands.produce("lines", str(tmp_path / "a"), str(tmp_path / "b"), "-p", "0").code == 0
    assert [each["value"] for each in commands.read("lines", "-p", "0")] == ["a1", "a2", "b1"]


def test_a_failed_record_makes_the_exit_code_1_and_the_others_are_written(commands: Commands) -> None:
    commands.create("limited")
    ended = commands.produce("limited", stdin=b"one\n" + bytes(2_000_000) + b"\nthree\n")
    assert ended.code == 1
    assert [row[2:6] for row in ended.rows] == [["2", "0", "1", "-"], ["1", "-", "-", "MESSAGE_TOO_LARGE"]]
    assert ended.stderr == "ottla: 2 records written, 1 failed\n"


def test_invalid_input_is_named_and_earlier_records_are_written(commands: Commands) -> None:
    commands.create("wrong")
    ended = commands.produce("wrong", "--input", "ndjson", stdin='{"value": "v"}\nnot json\n{"value": "w"}\n')
    assert ended.code == 1
    assert "line 2" in ended.stderr
    assert [each["value"] for each in commands.read("wrong")] == ["v"]


def test_a_record_of_a_missing_partition_fails_unless_any_is_given(commands: Commands) -> None:
    commands.create("fewer", 2)
    lines = '{"value": "a", "partition": 1}\n{"value": "b", "partition": 7}\n'
    ended = commands.produce("fewer", "--input", "ndjson", stdin=lines)
    assert (ended.code, [row[1:6:4] for row in ended.rows]) == (1, [["1", "-"], ["7", "UNKNOWN_TOPIC_OR_PARTITION"]])
    assert commands.produce("fewer", "--input", "ndjson", "-p", "any", stdin=lines).code == 0
    assert sorted(each["value"] for each in commands.read("fewer")) == ["a", "a", "b"]


@pytest.mark.parametrize(
    "options",
    [("-p", "x"), ("-p", "7"), ("-H", "x"), ("-f", "%k%v"), ("-f", "%v", "--key-separator", ":"), ("--rate", "0")],
)
def test_wrong_usage_of_produce_writes_nothing(commands: Commands, options: tuple[str, ...]) -> None:
    topic = f"refused-{'-'.join(options).replace('%', '').replace(':', '')}"
    commands.create(topic)
    assert commands.produce(topic, *options, stdin="x\n").code == 2


def test_a_range_chooses_the_printed_records(commands: Commands) -> None:
    commands.create("ranges", 2)
    lines = "".join(
        json.dumps({"value": str(number), "partition": number % 2, "timestamp": BASE_MS + number * 1000}) + "\n"
        for number in range(20)
    )
    assert commands.produce("ranges", "--input", "ndjson", stdin=lines).code == 0

    def found(*options: str) -> list[int]:
        ended = commands.consume("ranges", *options)
        assert ended.code == 0, ended
        return [int(value) for value in ended.stdout.split()]

    assert sorted(found("-e")) == list(range(20))
    assert found("-p", "1", "--offset", "3:5") == [7, 9]
    assert found("-p", "1", "--from", "-2", "--until", "end") == [17, 19]
    assert found("-p", "0", "--from", "+8", "-e") == [16, 18]
    assert found("--last", "2") == [16, 17, 18, 19]
    assert sorted(found("--offset", f"@{BASE_MS + 4500}:3s")) == [5, 6, 7]
    assert sorted(found("--until", f"@{BASE_MS + 2000}")) == [0, 1]
    assert len(found("-n", "3")) == 3
    assert found("-p", "1", "--from", "99", "-e") == []
    assert sorted(found("-e", "--value", "/^1.$/", "--value", "!*5")) == [10, 11, 12, 13, 14, 16, 17, 18, 19]


def test_topics_are_chosen_by_patterns_and_must_exist(commands: Commands) -> None:
    for topic in ("many-a", "many-b"):
        commands.create(topic)
        assert commands.produce(topic, stdin=f"{topic}\n").code == 0
    assert sorted(commands.consume("many-*", "-e", "-f", "%t=%v ").stdout.split()) == ["many-a=many-a", "many-b=many-b"]
    assert commands.consume("many-a", "many-b", "-n", "2", "-f", "x").stdout == "xx"
    assert commands.consume("--regex", "many-[b]", "-e").stdout == "many-b\n"
    for name in ("nowhere", "nowhere-*"):
        ended = commands.consume(name, "-e")
        assert ended.code == 1
        assert "UNKNOWN_TOPIC_OR_PARTITION" in ended.stderr
    assert "many-a has no partition 5" in commands.consume("many-a", "-p", "5").stderr


def test_a_group_continues_at_its_committed_offsets(commands: Commands) -> None:
    commands.create("grouped", 2)
    assert commands.produce("grouped", "-p", "0", stdin="1\n2\n3\n").code == 0
    assert commands.consume("grouped", "-g", "readers", "-n", "2").stdout == "1\n2\n"
    assert commands.consume("grouped", "-g", "readers", "-e").stdout == "3\n"
    assert commands.produce("grouped", "-p", "1", stdin="4\n").code == 0
    assert commands.consume("grouped", "-g", "readers", "-e").stdout == "4\n"
    assert commands.consume("grouped", "-g", "others", "--from", "end", "-e").stdout == ""


def test_a_follower_prints_new_records_and_ends_with_ctrl_c(
    commands: Commands, broker: Broker, env: dict[str, str]
) -> None:
    commands.create("followed")
    assert commands.produce("followed", stdin="1\n2\n").code == 0
    command = [*COMMAND, "consume", "followed", "--last", "1", "--follow", "-b", broker.bootstrap]
    with subprocess.Popen(command, stdout=subprocess.PIPE, env=env) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == b"2\n"
        assert commands.produce("followed", stdin="3\n").code == 0
        assert process.stdout.readline() == b"3\n"
        process.send_signal(signal.SIGINT)
        assert process.wait(PATIENCE_S) == 130


def test_a_member_that_is_terminated_leaves_its_group(commands: Commands, broker: Broker, env: dict[str, str]) -> None:
    commands.create("terminated")
    assert commands.produce("terminated", stdin="1\n").code == 0
    command = [*COMMAND, "consume", "terminated", "-g", "leavers", "-b", broker.bootstrap]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, env=env) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == b"1\n"
        process.terminate()
        assert process.wait(PATIENCE_S) == 130
    assert commands.produce("terminated", stdin="2\n").code == 0
    # The other member does not wait for the session timeout of the first one.
    assert commands.consume("terminated", "-g", "leavers", "-n", "1").stdout == "2\n"


def test_a_reader_may_close_the_pipe(commands: Commands, broker: Broker, env: dict[str, str]) -> None:
    commands.create("piped")
    assert commands.produce("piped", stdin="x\n" * 10_000).code == 0
    command = [*COMMAND, "consume", "piped", "-b", broker.bootstrap]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, env=env) as process:
        assert process.stdout is not None
        assert process.stderr is not None
        process.stdout.readline()
        process.stdout.close()
        assert commands.produce("piped", stdin="y\n" * 10_000).code == 0
        assert process.wait(PATIENCE_S) == 141
        assert process.stderr.read() == b""


def test_records_on_a_terminal_have_no_control_characters(
    commands: Commands, broker: Broker, env: dict[str, str]
) -> None:
    commands.create("wicked")
    assert commands.produce("wicked", stdin=b"\x1b]0;title\x07\xc2\x9b2J\xff\n").code == 0
    for options in (
        (),
        ("-o", "ndjson"),
        ("-o", "json"),
        ("-o", "tsv"),
        ("-o", "yaml"),
        ("-o", "csv"),
        ("-o", "table"),
    ):
        shown = ottla_on_a_terminal("consume", "wicked", "-e", *options, "-b", broker.bootstrap, env=env).stdout
        # The table has its own bold head.
        shown = shown.replace("\x1b[1m", "").replace("\x1b[0m", "")
        assert shown.replace("\n", "").isprintable(), (options, shown)
        assert "title" in shown or "base64" in shown


def test_avro_is_decoded(commands: Commands, tmp_path: Path) -> None:
    commands.create("avro")
    schema = tmp_path / "schema.avsc"
    schema.write_text(json.dumps({"type": "record", "name": "R", "fields": [{"name": "id", "type": "long"}]}))
    assert commands.produce("avro", "-f", "%v{hex}\\n", stdin="54\n").code == 0
    assert commands.consume("avro", "-e", "--decode", "avro", "--schema", str(schema)).stdout == '{"id": 42}\n'
    assert commands.read("avro", "--decode", "avro", "--schema", str(schema))[0]["value"] == {"id": 42}


@pytest.mark.parametrize(
    "options",
    [("--from", "x"), ("--offset", "1:x"), ("--from", "1", "--offset", "2"), ("--follow",), ("-p", "a"), ("-f", "%q"),
     ("-f", "%v", "-o", "csv"), ("--decode", "avro"), ("--key", "/(/"), ("-g", "g", "-p", "1"),
     ("-g", "g", "--from", "3"), ("-g", "g", "--last", "3")],
)  # fmt: skip
def test_wrong_usage_of_consume_prints_nothing(commands: Commands, options: tuple[str, ...]) -> None:
    ended = commands.consume("stock", *options)
    assert (ended.code, ended.stdout) == (2, "")
