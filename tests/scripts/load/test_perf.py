"""`ottla perf` on a real broker."""

import csv
import io
import os
import pty
import select
import signal
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import confluent_kafka
import pytest

from ottla import Broker
from ottla.scripts.load.measurement import COLUMNS
from tests.scripts.running import COMMAND, PATIENCE_S, Ended, environment, ottla, ottla_on_a_terminal, until

pytestmark = pytest.mark.slow
NOBODY = "127.0.0.1:1"
EVERY = ["topic", *COLUMNS, "error", "message"]
LATENCIES = ("mean_ms", "p50_ms", "p95_ms", "p99_ms", "p999_ms", "max_ms")


@pytest.fixture(scope="module")
def broker() -> Iterator[Broker]:
    with Broker() as running:
        yield running


class Commands:
    """The command on one broker, and a topic."""

    def __init__(self, broker: Broker, home: Path, topic: str) -> None:
        self.topic = topic
        self.where = ("-b", broker.bootstrap)
        self.env = environment(home)
        broker.create_topic(topic, 3)

    def perf(self, command: str, *options: str) -> Ended:
        return ottla("perf", command, self.topic, *options, *self.where, env=self.env)

    def row(self, command: str, *options: str) -> dict[str, Any]:
        """Return the only row of a command."""
        ended = self.perf(command, *options, "-o", "json")
        assert (ended.code, ended.stderr) == (0, "")
        (found,) = ended.items
        assert list(found) == EVERY
        return found

    def records(self) -> int:
        """Return the topic's count of records."""
        ended = ottla("offsets", self.topic, *self.where, "-o", "json", env=self.env)
        return sum(each["offset"] for each in ended.items)


@pytest.fixture
def on(broker: Broker, tmp_path: Path, request: pytest.FixtureRequest) -> Commands:
    name = "".join(each if each.isalnum() else "-" for each in request.node.name)
    return Commands(broker, tmp_path, f"t{name[-60:]}")


def has_latencies(row: dict[str, Any]) -> bool:
    p50, p95, p99, p999, most = (row[name] for name in LATENCIES[1:])
    return bool(0 < p50 <= p95 <= p99 <= p999 <= most and 0 < row["mean_ms"] <= most)


def consumed(broker: Broker, topic: str, count: int) -> list[confluent_kafka.Message]:
    """Return so many records of a topic, read by a stock client."""
    consumer = confluent_kafka.Consumer(
        {"bootstrap.servers": broker.bootstrap, "group.id": "g", "auto.offset.reset": "earliest", "log_level": 0}
    )
    consumer.assign([confluent_kafka.TopicPartition(topic, each, 0) for each in range(3)])
    found: list[confluent_kafka.Message] = []
    while len(found) < count:
        found += consumer.consume(count - len(found), PATIENCE_S)
    consumer.close()
    return found


def test_records_are_written_and_measured(on: Commands, broker: Broker) -> None:
    row = on.row("produce", "-n", "500", "--size", "33", "--keys", "7", "-z", "lz4", "--acks", "1")
    assert (row["topic"], row["records"], row["bytes"], row["error"]) == (on.topic, 500, 500 * 34, None)
    assert has_latencies(row)
    assert 500 / row["records_per_second"] == pytest.approx(row["seconds"], abs=0.001)
    assert row["mb_per_second"] == pytest.approx(row["records_per_second"] * 34 / 1e6, abs=0.001)
    found = consumed(broker, on.topic, 500)
    assert {len(each.value() or b"") for each in found} == {33}
    assert {each.key() for each in found} == {b"%d" % number for number in range(7)}


def test_a_warm_up_is_written_and_not_measured(on: Commands) -> None:
    assert on.row("produce", "-n", "10", "--warm-up", "40")["records"] == 10
    assert on.records() == 50
    assert on.row("latency", "-n", "5", "--warm-up", "3")["records"] == 5
    assert on.records() == 58
    assert on.row("consume", "--warm-up", "20")["records"] == 38


def test_values_are_lines_of_a_file(on: Commands, broker: Broker, tmp_path: Path) -> None:
    file = tmp_path / "values"
    file.write_bytes(b"one\n\nthree\r\n\xff")
    row = on.row("produce", "-n", "200", "--payload-file", str(file), "-k", "key")
    found = consumed(broker, on.topic, 200)
    assert {each.value() for each in found} == {b"one", b"", b"three\r", b"\xff"}
    assert {each.key() for each in found} == {b"key"}
    assert row["bytes"] == sum(len(each.value() or b"") + 3 for each in found)


def test_a_run_ends_after_its_duration(on: Commands) -> None:
    row = on.row("produce", "--duration", "300ms", "--rate", "100")
    # The rate is what the command was told, whatever the machine does.
    assert 0 < row["records"] <= 31
    assert on.records() == row["records"]
    assert on.row("latency", "--duration", "1h", "-n", "4")["records"] == 4
    idle = on.row("consume", "--from", "end", "--duration", "100ms")
    assert (idle["records"], idle["records_per_second"], idle["mean_ms"]) == (0, None, None)


def test_a_topic_is_read_to_its_current_end(on: Commands) -> None:
    assert on.perf("produce", "-n", "300", "--size", "20", "--keys", "30").code == 0
    row = on.row("consume")
    assert row["records"] == 300
    assert row["bytes"] == sum(20 + len(str(number % 30)) for number in range(300))
    assert all(row[name] is None for name in LATENCIES)
    assert on.row("consume", "-n", "12")["records"] == 12
    assert on.row("consume", "-p", "0,2", "--from", "+1")["records"] < 300
    assert on.row("consume", "--from", "-1", "--read-committed")["records"] == 3


def test_records_written_during_the_run_have_a_latency(on: Commands) -> None:
    command = [*COMMAND, "perf", "consume", on.topic, "--from", "end", "-n", "5", *on.where, "-o", "json"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, env=on.env) as process:
        # Records arrive at any time when it begins to read.
        until(lambda: on.perf("produce", "-n", "3") and process.poll() is not None)
        assert process.stdout is not None
        row = Ended(process.returncode, process.stdout.read().decode(), "").items[0]
    assert row["records"] == 5
    assert 0 <= row["p50_ms"] <= row["max_ms"]


def test_round_trips_are_measured_beside_other_producers(on: Commands) -> None:
    other = [*COMMAND, "perf", "produce", on.topic, "--rate", "200", "--duration", "1h", *on.where]
    with subprocess.Popen(other, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, env=on.env) as process:
        until(lambda: on.records() > 0)
        row = on.row("latency", "-n", "20", "--size", "7", "-k", "me", "--acks", "1")
        process.terminate()
        assert process.wait(PATIENCE_S) == 130
    assert (row["records"], row["bytes"]) == (20, 180)
    assert has_latencies(row)


@pytest.mark.parametrize("command", ["produce", "consume", "latency"])
def test_every_format_has_the_same_row(on: Commands, command: str) -> None:
    assert on.perf("produce", "-n", "10").code == 0
    options = [] if command == "consume" else ["-n", "3"]
    headings, values = csv.reader(io.StringIO(on.perf(command, *options, "-o", "csv").stdout))
    assert headings == EVERY
    assert (values[0], len(values)) == (on.topic, len(EVERY))
    (cells,) = on.perf(command, *options).rows
    assert (cells[0], len(cells), cells[-1]) == (on.topic, len(EVERY), "-")
    assert on.perf(command, *options, "-o", "ndjson").stdout.startswith(f'{{"topic": "{on.topic}", "records": ')
    assert on.perf(command, *options, "-o", "yaml").stdout.startswith('schema: 1\ncommand: "perf ')


def test_a_terminal_shows_progress_and_then_a_table(on: Commands) -> None:
    for command, what in (("produce", "producing"), ("latency", "round trips"), ("consume", "consuming")):
        options = [] if command == "consume" else ["-n", "50"]
        shown = ottla_on_a_terminal("perf", command, on.topic, *options, *on.where, env={**on.env, "NO_COLOR": "1"})
        assert shown.code == 0
        assert what in shown.stdout
        heading, row = shown.stdout.splitlines()[-2:]
        assert heading.split()[-11:] == [each.upper().replace("_", "-") for each in COLUMNS]
        assert row.startswith(on.topic)


@pytest.mark.parametrize("command", ["produce", "latency"])
def test_ctrl_c_prints_the_measurement_so_far(on: Commands, command: str) -> None:
    words = [*COMMAND, "perf", command, on.topic, "--duration", "1h", "--rate", "100", *on.where]
    with subprocess.Popen(words, stdout=subprocess.PIPE, stderr=subprocess.PIPE, env=on.env) as process:
        until(lambda: on.records() > 5)
        process.send_signal(signal.SIGINT)
        stdout, stderr = process.communicate(timeout=PATIENCE_S)
    assert (process.returncode, stderr) == (130, b"")
    (cells,) = Ended(130, stdout.decode(), "").rows
    assert 0 < int(cells[1]) <= on.records()


def test_a_document_after_ctrl_c_has_the_error_interrupted(on: Commands) -> None:
    assert on.perf("produce", "-n", "3").code == 0
    words = [*COMMAND, "perf", "consume", on.topic, "--duration", "1h", *on.where, "-o", "json"]
    ours, theirs = pty.openpty()
    with subprocess.Popen(words, stdout=subprocess.PIPE, stderr=theirs, env={**on.env, "TERM": "xterm"}) as process:
        shown = b""
        while b"3/?" not in shown:
            assert select.select([ours], [], [], PATIENCE_S)[0], shown
            shown += os.read(ours, 65536)
        process.send_signal(signal.SIGINT)
        stdout, _ = process.communicate(timeout=PATIENCE_S)
    os.close(ours)
    os.close(theirs)
    found = Ended(process.returncode, stdout.decode(), "")
    assert found.code == 130
    assert (found.document["error"]["code"], found.items[0]["records"]) == ("Interrupted", 3)


def test_a_record_that_fits_no_batch_ends_the_run(on: Commands) -> None:
    ended = on.perf("produce", "--size", "2000000")
    assert (ended.code, ended.stdout) == (1, "")
    assert ended.stderr.startswith("ottla: MESSAGE_TOO_LARGE: The message is 2000088 bytes")


def test_records_that_the_broker_refuses_are_a_row_of_their_own(on: Commands) -> None:
    limited = ottla("configs", "set", f"topic/{on.topic}", "max.message.bytes=500", *on.where, env=on.env)
    assert limited.code == 0
    ended = on.perf("produce", "-n", "3", "--size", "600", "-X", "linger.ms=0", "-o", "json")
    assert ended.code == 1
    measured, refused = ended.items
    assert (measured["records"], measured["error"]) == (0, None)
    assert (refused["records"], refused["error"]) == (3, "MESSAGE_TOO_LARGE")


@pytest.mark.parametrize("command", ["produce", "consume", "latency"])
def test_a_missing_topic_is_not_created(on: Commands, command: str) -> None:
    ended = ottla("perf", command, "nowhere", *on.where, "-o", "json", env=on.env)
    assert (ended.code, ended.document["error"]["code"]) == (1, "UNKNOWN_TOPIC_OR_PARTITION")
    topics = ottla("topics", "list", *on.where, env=on.env).rows
    assert "nowhere" not in [row[0] for row in topics]


@pytest.mark.parametrize("command", ["produce", "consume", "latency"])
def test_a_broker_that_cannot_be_reached_is_named(tmp_path: Path, command: str) -> None:
    ended = ottla("perf", command, "t", "-b", NOBODY, env=environment(tmp_path))
    assert (ended.code, ended.stdout) == (1, "")
    assert "Connection refused" in ended.stderr


@pytest.mark.parametrize(
    ("command", "options"),
    [
        ("produce", ["-n", "0"]),
        ("produce", ["--duration", "soon"]),
        ("produce", ["--size", "3", "--payload-file", "FILE"]),
        ("produce", ["--payload-file", "EMPTY"]),
        ("produce", ["--key", "a", "--keys", "3"]),
        ("produce", ["--rate", "0"]),
        ("produce", ["-X", "linger.mss=3"]),
        ("produce", ["-X", "linger.ms"]),
        ("produce", ["-X", "linger.ms=soon"]),
        ("produce", ["-X", "transactional.id=t"]),
        ("consume", ["-p", "x"]),
        ("consume", ["--from", "x"]),
        ("latency", ["--acks", "0"]),
        ("latency", ["-X", "acks=0"]),
    ],
)
def test_wrong_usage_measures_nothing(on: Commands, tmp_path: Path, command: str, options: list[str]) -> None:
    files = {"FILE": tmp_path / "file", "EMPTY": tmp_path / "empty"}
    files["FILE"].write_text("x\n")
    files["EMPTY"].write_text("")
    given = [str(files.get(each, each)) for each in options]
    ended = on.perf(command, *given)
    assert (ended.code, ended.stdout) == (2, "")
    assert "Traceback" not in ended.stderr
    assert on.records() == 0
