"""`ottla verifiable-producer`, `ottla verifiable-consumer` and Kafka's programs of these names, on a real broker."""

import contextlib
import json
import signal
import subprocess
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import pytest

from ottla import Broker
from tests.scripts.running import COMMAND, PATIENCE_S, Ended, environment, ottla, ottla_on_a_terminal, until

pytestmark = pytest.mark.slow
NOBODY = "127.0.0.1:1"
TOOL = (sys.executable, "-P", "-m", "ottla.scripts.kafka", "--as")
EVENTS = ("timestamp", "name")
FAILED = "class org.apache.kafka.common.errors.RecordTooLargeException"


@pytest.fixture(scope="module")
def broker() -> Iterator[Broker]:
    with Broker() as running:
        yield running


class Programs:
    """The two commands, and a topic."""

    def __init__(self, broker: Broker, home: Path, topic: str) -> None:
        self.topic = topic
        self.bootstrap = broker.bootstrap
        self.where = ("-b", broker.bootstrap)
        self.env = environment(home)
        broker.create_topic(topic, 1)

    def write(self, *options: str) -> Ended:
        return ottla("verifiable-producer", self.topic, *options, *self.where, env=self.env)

    def read(self, *options: str) -> Ended:
        return ottla("verifiable-consumer", self.topic, "-g", self.topic, *options, *self.where, env=self.env)

    def ended_by(self, number: int, words: Sequence[str], last: str) -> tuple[int, list[dict[str, Any]], str]:
        """Send a program a signal after an event; return its exit code, its events and its stderr."""
        pipe = subprocess.PIPE
        # Without a buffer, in which `communicate` would not look.
        with subprocess.Popen(words, bufsize=0, stdout=pipe, stderr=pipe, env=self.env) as process:
            assert process.stdout is not None
            lines = []
            for line in process.stdout:
                lines.append(json.loads(line))
                if lines[-1]["name"] == last:
                    break
            process.send_signal(number)
            stdout, stderr = process.communicate(timeout=PATIENCE_S)
        return process.returncode, lines + [json.loads(line) for line in stdout.splitlines()], stderr.decode()


@pytest.fixture
def on(broker: Broker, tmp_path: Path, request: pytest.FixtureRequest) -> Programs:
    name = "".join(each if each.isalnum() else "-" for each in request.node.name)
    return Programs(broker, tmp_path, f"t{name[-60:]}")


def events(ended: Ended) -> list[dict[str, Any]]:
    found = [json.loads(line) for line in ended.stdout.splitlines()]
    assert all(tuple(each)[:2] == EVENTS for each in found)
    return found


def names(found: list[dict[str, Any]]) -> list[str]:
    return [each["name"] for each in found]


def test_each_number_is_printed_and_read_again(on: Programs) -> None:
    written = on.write("--max", "5", "--value-prefix", "7", "--keys", "2", "--create-time", "1700000000000")
    assert (written.code, written.stderr) == (0, "")
    found = events(written)
    assert names(found) == ["startup_complete", *["producer_send_success"] * 5, "shutdown_complete", "tool_data"]
    place = {"topic": on.topic, "partition": 0}
    told = [{name: each[name] for name in ("key", "value", "topic", "partition", "offset")} for each in found[1:6]]
    assert told == [{"key": str(at % 2), "value": f"7.{at}", **place, "offset": at} for at in range(5)]
    summary = found[-1]
    assert (summary["sent"], summary["acked"], summary["target_throughput"]) == (5, 5, -1)
    read = on.read("--max", "5", "--verbose")
    assert (read.code, read.stderr) == (0, "")
    found = events(read)
    assert names(found) == [
        *("startup_complete", "partitions_assigned", *["record_data"] * 5, "records_consumed", "offsets_committed"),
        *("partitions_revoked", "shutdown_complete", "shutdown_requested"),
    ]
    assert [{name: each[name] for name in told[0]} for each in found[2:7]] == told
    assert found[1]["partitions"] == found[9]["partitions"] == [place]
    assert (found[7]["count"], found[7]["partitions"]) == (5, [{**place, "count": 5, "minOffset": 0, "maxOffset": 4}])
    assert (found[8]["offsets"], found[8]["success"]) == ([{**place, "offset": 5}], True)


def test_a_reader_continues_at_the_groups_committed_offsets(on: Programs) -> None:
    assert on.write("--max", "10").code == 0
    static = ("--instance-id", "one", "--assignor", "roundrobin")
    first = on.read("--max", "4", "-X", "max.poll.records=3", *static)
    counts = [each["count"] for each in events(first) if each["name"] == "records_consumed"]
    assert counts == [3, 3]
    # --max ended the second poll after one record, and only that record is committed.
    second = on.read("--max", "1", "--verbose", "--session-timeout", "10s", *static)
    assert [each["offset"] for each in events(second) if each["name"] == "record_data"] == [4]
    # With automatic commits all records of the poll are committed.
    assert on.read("--max", "1", "--auto-commit", "--from", "nowhere", *static).code == 0
    assert on.write("--max", "1").code == 0
    last = on.read("--max", "1", "--verbose", *static)
    assert [each["offset"] for each in events(last) if each["name"] == "record_data"] == [10]


def test_a_group_without_offsets_fails_with_from_nowhere(on: Programs) -> None:
    ended = on.read("--from", "nowhere", "--max", "1")
    assert ended.code == 1
    assert "auto.offset.reset=none" in ended.stderr
    assert names(events(ended))[-2:] == ["shutdown_complete", "shutdown_requested"]


def test_a_failed_record_is_printed_and_makes_the_exit_code_1(on: Programs) -> None:
    ended = on.write("--max", "2", "-X", "max.request.size=20")
    assert ended.code == 1
    failed = [each for each in events(ended) if each["name"] == "producer_send_error"]
    assert [(each["value"], each["exception"]) for each in failed] == [("0", FAILED), ("1", FAILED)]
    assert events(ended)[-1]["acked"] == 0


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_a_signal_ends_a_program_with_its_last_events(on: Programs, number: int) -> None:
    words = [*COMMAND, "verifiable-producer", on.topic, "--rate", "100", *on.where]
    code, found, stderr = on.ended_by(number, words, "producer_send_success")
    assert (code, stderr) == (130, "")
    assert names(found)[-2:] == ["shutdown_complete", "tool_data"]
    assert found[-1]["sent"] == found[-1]["acked"] == names(found).count("producer_send_success") > 0
    words = [*COMMAND, "verifiable-consumer", on.topic, "-g", on.topic, *on.where]
    code, found, stderr = on.ended_by(number, words, "offsets_committed")
    assert (code, stderr) == (130, "")
    assert names(found)[-3:] == ["shutdown_requested", "partitions_revoked", "shutdown_complete"]


def test_a_signal_ends_a_program_whose_records_all_fail(on: Programs) -> None:
    words = [*COMMAND, "verifiable-producer", on.topic, "-X", "max.request.size=20", *on.where]
    code, found, _ = on.ended_by(signal.SIGINT, words, "producer_send_error")
    assert code == 130
    assert names(found)[-2:] == ["shutdown_complete", "tool_data"]


def test_a_second_signal_ends_a_program_whose_broker_has_gone(on: Programs) -> None:
    with Broker() as broker:
        broker.create_topic("t")
        words = [*COMMAND, "verifiable-producer", "t", "--rate", "100", "-b", broker.bootstrap]
        words += ["-X", "delivery.timeout.ms=2000000000"]
        with subprocess.Popen(words, stdout=subprocess.PIPE, stderr=subprocess.PIPE, env=on.env) as process:
            assert process.stdout is not None
            process.stdout.readline()
            process.stdout.readline()
            broker.kill()

            def has_ended() -> bool:
                process.send_signal(signal.SIGINT)
                with contextlib.suppress(subprocess.TimeoutExpired):
                    process.wait(0.1)
                return process.returncode is not None

            until(has_ended)
            last = process.stdout.read().splitlines()[-1]
        # A signal that comes in the interpreter's own end finds its handler gone.
        assert process.returncode in (130, -signal.SIGINT)
        assert json.loads(last)["name"] == "tool_data"
        broker.start()


@pytest.mark.parametrize(("release", "is_told"), [("4.3", True), ("3.9", False)])
def test_a_signal_ends_kafkas_programs_with_their_codes(on: Programs, release: str, is_told: bool) -> None:
    where = ["--bootstrap-server", on.bootstrap, "--topic", on.topic]
    words = [*TOOL, release, "kafka-verifiable-producer", *where, "--throughput", "100"]
    code, found, _ = on.ended_by(signal.SIGTERM, words, "producer_send_success")
    assert code == 143
    assert names(found)[-2:] == ["shutdown_complete", "tool_data"]
    words = [*TOOL, release, "kafka-verifiable-consumer", *where, "--group-id", on.topic]
    code, found, _ = on.ended_by(signal.SIGINT, words, "offsets_committed")
    assert code == 130
    assert names(found)[-2:] == ["partitions_revoked", "shutdown_complete"]
    assert ("shutdown_requested" in names(found)) == is_told


# Formats


def test_with_output_the_events_are_rows(on: Programs) -> None:
    written = on.write("--max", "2", "-o", "json")
    assert written.code == 0
    assert names(written.items) == [
        "startup_complete",
        *["producer_send_success"] * 2,
        "shutdown_complete",
        "tool_data",
    ]
    assert len({tuple(each) for each in written.items}) == 1
    assert [each["value"] for each in written.items[1:3]] == ["0", "1"]
    read = on.read("--max", "2", "-o", "json")
    assert [each["offsets"] for each in read.items if each["name"] == "offsets_committed"] == [
        [{"topic": on.topic, "partition": 0, "offset": 2}]
    ]
    failed = on.write("--max", "1", "-X", "max.request.size=20", "-o", "csv")
    assert failed.code == 1
    assert failed.stdout.splitlines()[0].endswith(",error,message")
    assert ",MESSAGE_TOO_LARGE," in failed.stdout
    assert len({len(row) for row in on.write("--max", "2", "-o", "tsv").rows}) == 1


def test_a_terminal_gets_lines_without_control_characters_or_a_table(on: Programs) -> None:
    produce = ("produce", on.topic, *on.where)
    assert ottla(*produce, stdin="\x1b]0;title\x07\u009b2J\n", env=on.env).code == 0
    for options in ((), ("-o", "ndjson"), ("-o", "table")):
        words = ("verifiable-consumer", on.topic, "-g", f"g{len(options)}{options[-1:]}".replace("'", ""), "--verbose")
        env = {**on.env, "NO_COLOR": "1"}
        shown = ottla_on_a_terminal(*words, "--max", "1", *options, *on.where, env=env)
        assert shown.code == 0
        assert shown.stdout.replace("\n", "").isprintable()
        assert "title" in shown.stdout
        assert shown.stdout.lstrip().startswith("TIMESTAMP" if options[1:] == ("table",) else '{"timestamp":')


def test_a_reader_may_close_the_pipe(on: Programs) -> None:
    words = [*COMMAND, "verifiable-producer", on.topic, *on.where]
    with subprocess.Popen(words, stdout=subprocess.PIPE, stderr=subprocess.PIPE, env=on.env) as process:
        assert process.stdout is not None
        assert process.stderr is not None
        process.stdout.readline()
        process.stdout.close()
        assert process.wait(PATIENCE_S) == 141
        assert process.stderr.read() == b""


# Refusals


@pytest.mark.parametrize("words", [("verifiable-producer", "nowhere"), ("verifiable-consumer", "nowhere", "-g", "g")])
def test_a_missing_topic_and_an_unreachable_broker_are_named(on: Programs, words: tuple[str, ...]) -> None:
    ended = ottla(*words, *on.where, env=on.env)
    assert (ended.code, ended.stdout) == (1, "")
    assert "UNKNOWN_TOPIC_OR_PARTITION" in ended.stderr
    assert "nowhere" not in [row[0] for row in ottla("topics", "list", *on.where, env=on.env).rows]
    ended = ottla(*words, "-b", NOBODY, "-o", "json", env=on.env)
    assert (ended.code, ended.document["error"]["code"]) == (1, "ConnectionFailed")


@pytest.mark.parametrize(
    "words",
    [
        ("verifiable-producer",),
        ("verifiable-producer", "t", "--max", "-1"),
        ("verifiable-producer", "t", "--rate", "0"),
        ("verifiable-producer", "t", "--acks", "2"),
        ("verifiable-producer", "t", "-X", "acks"),
        ("verifiable-consumer", "t"),
        ("verifiable-consumer", "t", "-g", "g", "--from", "3"),
        ("verifiable-consumer", "t", "-g", "g", "--assignor", "sticky"),
        ("verifiable-consumer", "t", "-g", "g", "--session-timeout", "soon"),
        ("verifiable-consumer", "t", "-g", "g", "-X", "max.poll.record=3"),
    ],
)
def test_wrong_usage_does_nothing(tmp_path: Path, words: tuple[str, ...]) -> None:
    ended = ottla(*words, "-b", NOBODY, env=environment(tmp_path))
    assert (ended.code, ended.stdout) == (2, "")
    assert ended.stderr
    assert "Traceback" not in ended.stderr
