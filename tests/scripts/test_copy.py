"""`ottla copy` between two real brokers."""

import json
import random
import signal
import subprocess
from collections import Counter
from collections.abc import Iterator, Sequence
from functools import partial
from pathlib import Path
from typing import Any

import confluent_kafka
import pytest

from ottla import Broker
from tests.scripts.odd_records import BASE_MS, odd_record
from tests.scripts.running import COMMAND, PATIENCE_S, Ended, environment, ottla, ottla_on_a_terminal, until

pytestmark = pytest.mark.slow
NOBODY = "127.0.0.1:1"
COLUMNS = (
    *("topic", "partition", "target", "first_offset", "next_offset", "read", "matching", "copied"),
    *("error", "message"),
)


@pytest.fixture(scope="module")
def brokers() -> Iterator[tuple[Broker, Broker]]:
    # Without retention, because the records are of 2023.
    with Broker(log_retention_ms=-1) as source, Broker(log_retention_ms=-1, message_max_bytes=5000) as target:
        yield source, target


class Sides:
    """A topic of one name on two brokers, and the command."""

    def __init__(self, brokers: tuple[Broker, Broker], home: Path, topic: str) -> None:
        self.source, self.target = brokers
        self.topic = topic
        self.env = environment(home)
        self._home = home

    def create(self, partitions: int = 3, others: int | None = None) -> None:
        """Create the topic on both; the target has another number of partitions if that is given."""
        self.source.create_topic(self.topic, partitions)
        self.target.create_topic(self.topic, others or partitions)

    def write(self, records: Sequence[dict[str, Any]], topic: str | None = None) -> None:
        lines = "\n".join(json.dumps(each) for each in records)
        options = ("-b", self.source.bootstrap, "--input", "ndjson")
        ended = ottla("produce", topic or self.topic, *options, stdin=lines, env=self.env)
        assert ended.code == 0, ended

    def words(self, *options: str) -> list[str]:
        """Return the command line from one broker to the other."""
        where = ["-b", self.source.bootstrap]
        if not {"--as", "--to-profile", "--to-config"} & set(options):
            where += ["--to", self.target.bootstrap]
        return ["copy", self.topic, *where, *options]

    def copy(self, *options: str, code: int = 0) -> Ended:
        ended = ottla(*self.words(*options), env=self.env)
        assert ended.code == code, ended
        assert "Traceback" not in ended.stderr
        return ended

    def rows(self, *options: str, code: int = 0) -> list[dict[str, Any]]:
        return self.copy(*options, "-o", "json", code=code).items

    def read(self, broker: Broker, topic: str | None = None) -> list[dict[str, Any]]:
        """Return the records of the topic, by partition and offset, without the topic's name."""
        options = ("-b", broker.bootstrap, "-e", "-o", "ndjson")
        ended = ottla("consume", topic or self.topic, *options, env=self.env)
        assert ended.code == 0, ended
        found = [json.loads(line) for line in ended.stdout.split("\n") if line]
        found.sort(key=lambda each: (each["partition"], each["offset"]))
        return [{name: each for name, each in record.items() if name != "topic"} for record in found]

    def values(self, broker: Broker, topic: str | None = None) -> list[Any]:
        return [each["value"] for each in self.read(broker, topic)]

    def committed(self, group: str) -> dict[int, int]:
        """Return a group's committed offsets on the source."""
        options = ("-b", self.source.bootstrap, "-o", "json")
        items = ottla("groups", "describe", group, *options, env=self.env).items
        return {
            each["partition"]: each["committed_offset"] for each in items if each.get("committed_offset") is not None
        }

    def has_committed(self, group: str, least: int) -> bool:
        """Whether a group has committed at least so many records."""
        return sum(self.committed(group).values()) >= least

    def config(self, **properties: str) -> str:
        """Return a file of client properties."""
        file = self._home / f"client-{len(properties)}.properties"
        file.write_text("".join(f"{name.replace('_', '.')}={value}\n" for name, value in properties.items()))
        return str(file)


@pytest.fixture
def sides(brokers: tuple[Broker, Broker], tmp_path: Path, request: pytest.FixtureRequest) -> Sides:
    name = "".join(each if each.isalnum() else "-" for each in request.node.name)
    return Sides(brokers, tmp_path, f"t{name[-60:]}")


def numbered(count: int, partitions: int = 3) -> list[dict[str, Any]]:
    return [
        {"key": f"k{number}", "value": str(number), "partition": number % partitions, "timestamp": BASE_MS + number}
        for number in range(count)
    ]


# Exact copies


@pytest.mark.parametrize("codec", [None, "zstd"])
def test_a_copy_is_exact_and_keeps_partitions_if_their_counts_are_equal(sides: Sides, codec: str | None) -> None:
    sides.create()
    sides.write([odd_record(3) for _ in range(300)])
    rows = sides.rows(*(() if codec is None else ("-z", codec)))
    assert sides.read(sides.target) == sides.read(sides.source)
    assert sum(row["copied"] for row in rows) == 300
    for number, row in enumerate(rows):
        assert tuple(row) == COLUMNS
        assert (row["topic"], row["partition"], row["target"], row["error"]) == (sides.topic, number, sides.topic, None)
        assert row["first_offset"] == 0
        assert row["next_offset"] == row["read"] == row["matching"] == row["copied"]


def test_with_another_partition_count_keys_choose_the_partition(sides: Sides) -> None:
    sides.create(3, 5)
    records = [{**each, "partition": random.randrange(3)} for each in numbered(100)]
    sides.write([*records, {"value": "without a key", "partition": 1}])
    sides.copy()
    # A producer without a partition chooses by the key, like a copy to another partition count.
    sides.target.create_topic(f"{sides.topic}-keys", 5)
    lines = "".join(f"{each['key']}:{each['value']}\n" for each in records)
    where = ("-b", sides.target.bootstrap, "--key-separator", ":")
    assert ottla("produce", f"{sides.topic}-keys", *where, stdin=lines, env=sides.env).code == 0
    copied = {each["value"]: each["partition"] for each in sides.read(sides.target)}
    assert "without a key" in copied
    del copied["without a key"]
    assert copied == {each["value"]: each["partition"] for each in sides.read(sides.target, f"{sides.topic}-keys")}


def test_a_topic_is_copied_to_another_name_on_the_same_cluster(sides: Sides) -> None:
    sides.create()
    sides.source.create_topic("other-name", 3)
    sides.write(numbered(20))
    assert {row["target"] for row in sides.rows("--as", "other-name")} == {"other-name"}
    assert sides.read(sides.source, "other-name") == sides.read(sides.source)


def test_the_target_is_a_profile_or_a_file_too(sides: Sides, tmp_path: Path) -> None:
    sides.create()
    sides.write(numbered(6))
    (tmp_path / "ottla").mkdir()
    (tmp_path / "ottla" / "profiles.toml").write_text(f'[there]\n"bootstrap.servers" = "{sides.target.bootstrap}"\n')
    sides.copy("--to-profile", "there")
    sides.copy("--to-config", sides.config(bootstrap_servers=sides.target.bootstrap, acks="0"))
    assert Counter(sides.values(sides.target)) == Counter([str(number) for number in range(6)] * 2)


def test_filters_and_ranges_choose_the_copied_records(sides: Sides) -> None:
    sides.create(2)
    sides.write(numbered(40, 2))
    rows = sides.rows("--key", "/^k[12]/", "--value", "!*5")
    assert [(row["read"], row["matching"]) for row in rows] == [(20, 11), (20, 9)]
    expected = [str(each) for each in range(40) if str(each)[0] in "12" and str(each)[-1] != "5"]
    assert sorted(sides.values(sides.target)) == sorted(expected)

    made: list[str] = []

    def found(*options: str) -> list[int]:
        name = f"{sides.topic[-40:]}-{len(made)}"
        made.append(name)
        sides.source.create_topic(name, 2)
        sides.copy("--as", name, *options)
        return sorted(int(each) for each in sides.values(sides.source, name))

    assert found("--offset", "3:5") == [6, 7, 8, 9]
    assert found("-p", "1", "--from", "-2") == [37, 39]
    assert found("--from", "+18", "--until", "end") == [36, 37, 38, 39]
    assert found("--offset", f"@{BASE_MS + 10}:{BASE_MS + 13}") == [10, 11, 12]
    assert len(found("-n", "7")) == 7
    assert len(found("-n", "7", "--rate", "1000", "-p", "0")) == 7
    assert found("--from", "end") == []


def test_a_dry_run_prints_the_count_and_writes_nothing(sides: Sides) -> None:
    sides.create()
    sides.write(numbered(30))
    ended = sides.copy("--dry-run", "--value", "1*", "-o", "json")
    assert ended.document["dry_run"] is True
    assert sum(row["matching"] for row in ended.items) == 11
    assert sum(row["read"] for row in ended.items) == 30
    assert {row["copied"] for row in ended.items} == {0}
    assert ended.stderr == f"ottla: 11 records would be copied to {sides.topic}\n"
    assert sides.values(sides.target) == []
    sides.copy("--dry-run", "--follow", "-g", "nobody-yet")
    assert sides.committed("nobody-yet") == {}


# Groups


def test_a_second_run_continues_at_the_committed_offsets(sides: Sides) -> None:
    sides.create()
    sides.write(numbered(30))
    rows = sides.rows("-g", f"g-{sides.topic}", "--from", "+4")
    assert [row["first_offset"] for row in rows] == [4, 4, 4]
    assert sides.committed(f"g-{sides.topic}") == {0: 10, 1: 10, 2: 10}
    sides.write(numbered(6))
    rows = sides.rows("-g", f"g-{sides.topic}", "--from", "+4")
    assert [(row["first_offset"], row["copied"]) for row in rows] == [(10, 2)] * 3
    assert [row["copied"] for row in sides.rows("-g", f"g-{sides.topic}")] == [0, 0, 0]
    assert len(sides.values(sides.target)) == 24


def test_records_that_a_filter_excludes_are_committed_too(sides: Sides) -> None:
    sides.create()
    sides.write(numbered(30))
    assert sum(row["copied"] for row in sides.rows("-g", f"g-{sides.topic}", "--value", "nothing")) == 0
    assert sides.committed(f"g-{sides.topic}") == {0: 10, 1: 10, 2: 10}


@pytest.mark.trials(few=2, soak=20)
def test_after_a_killed_run_no_record_is_left_out(sides: Sides, trials: int) -> None:
    sides.create()
    count = 600
    sides.write(numbered(count))
    for trial in range(trials):
        group = f"g{trial}-{sides.topic}"
        # Records linger before they are sent, but commits do not. At this rate the copy is far from its end when it is
        # killed.
        hasty = sides.config(auto_commit_interval_ms="1")
        slow = sides.config(linger_ms="200", bootstrap_servers=sides.target.bootstrap)
        options = ("-g", group, "--rate", "40", "--command-config", hasty, "--to-config", slow)
        words = [*COMMAND, *sides.words(*options)]
        with subprocess.Popen(words, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, env=sides.env) as process:
            least = random.randrange(1, 60)
            until(partial(sides.has_committed, group, least))
            assert process.poll() is None
            process.kill()
        committed = sides.committed(group)
        assert sum(committed.values()) < count
        rows = sides.rows("-g", group)
        # The next run continues at the committed offsets.
        assert {row["partition"]: row["first_offset"] for row in rows} == committed
        copied = Counter(sides.values(sides.target))
        assert all(copied[str(number)] >= trial + 1 for number in range(count))


def test_deleted_offsets_are_reported(sides: Sides) -> None:
    sides.create(1)
    sides.write(numbered(10, 1))
    sides.copy("-g", f"g-{sides.topic}", "-n", "3")
    delete = ("delete-records", f"{sides.topic}:0", "--before", "7", "-b", sides.source.bootstrap, "--yes")
    assert ottla(*delete, env=sides.env).code == 0
    ended = sides.copy("-g", f"g-{sides.topic}")
    assert f"{sides.topic}-0: the offsets 3 to 6 were deleted, and are not copied" in ended.stderr
    assert sides.values(sides.target) == ["0", "1", "2", "7", "8", "9"]


def test_a_group_ahead_of_the_topic_is_refused(sides: Sides) -> None:
    sides.create(1)
    sides.write(numbered(10, 1))
    consumer = confluent_kafka.Consumer(
        {"bootstrap.servers": sides.source.bootstrap, "group.id": f"g-{sides.topic}", "log_level": 0}
    )
    consumer.commit(offsets=[confluent_kafka.TopicPartition(sides.topic, 0, 11)], asynchronous=False)
    consumer.close()
    ended = sides.copy("-g", f"g-{sides.topic}", code=1)
    assert ended.stderr.startswith("ottla: OFFSET_OUT_OF_RANGE: ")
    assert f"committed 11 for {sides.topic}-0, but the log ends at 10: reset the group" in ended.stderr
    assert sides.values(sides.target) == []


def test_a_group_with_members_is_refused(sides: Sides) -> None:
    sides.create()
    sides.write(numbered(3))
    group = f"g-{sides.topic}"
    words = [*COMMAND, "consume", sides.topic, "-g", group, "-b", sides.source.bootstrap]
    with subprocess.Popen(words, stdout=subprocess.PIPE, env=sides.env) as process:
        assert process.stdout is not None
        process.stdout.readline()
        ended = sides.copy("-g", group, code=1)
        process.terminate()
        process.wait(PATIENCE_S)
    assert "the group has 1 member" in ended.stderr
    assert sides.values(sides.target) == []


# Transactions


def test_records_of_aborted_transactions_are_left_out(brokers: tuple[Broker, Broker], tmp_path: Path) -> None:
    env = environment(tmp_path)
    source, target = brokers
    where = ("-b", source.bootstrap)
    source.create_topic("sold", 1)
    settings = {"bootstrap.servers": source.bootstrap, "transactional.id": "t", "log_level": 0}
    producer = confluent_kafka.Producer(settings)
    producer.init_transactions(PATIENCE_S)
    for value, end in ((b"kept", producer.commit_transaction), (b"dropped", producer.abort_transaction)):
        producer.begin_transaction()
        producer.produce("sold", value)
        assert producer.flush(PATIENCE_S) == 0
        end(PATIENCE_S)
    # A new producer of the id comes when the last marker is written.
    confluent_kafka.Producer(settings).init_transactions(PATIENCE_S)
    for topic, options, expected in (("sold", (), "kept\n"), ("all", ("--read-uncommitted",), "kept\ndropped\n")):
        target.create_topic(topic, 1)
        ended = ottla("copy", "sold", "--as", topic, "--to", target.bootstrap, *options, *where, env=env)
        # The copy ends after the markers of transactions, which are not records.
        assert (ended.code, ended.rows[0][4]) == (0, "4")
        printed = ottla("consume", topic, "-e", "-b", target.bootstrap, env=env).stdout
        assert printed == expected


# The end of a copy


def test_a_follower_continues_until_ctrl_c_and_prints_its_counts(sides: Sides) -> None:
    sides.create(1)
    sides.write(numbered(5, 1))
    words = [*COMMAND, *sides.words("--follow", "-g", f"g-{sides.topic}")]
    with subprocess.Popen(words, stdout=subprocess.PIPE, stderr=subprocess.PIPE, env=sides.env) as process:
        until(lambda: len(sides.values(sides.target)) == 5)
        sides.write([{"value": "late", "partition": 0}])
        until(lambda: sides.values(sides.target)[5:] == ["late"])
        process.send_signal(signal.SIGINT)
        stdout, stderr = process.communicate(timeout=PATIENCE_S)
    ended = Ended(process.returncode, stdout.decode(), stderr.decode())
    assert (ended.code, ended.rows) == (
        130, [[sides.topic, "0", sides.topic, "0", "6", "6", "6", "6", "-", "-"]]
    )  # fmt: skip
    assert ended.stderr == f"ottla: 6 records copied to {sides.topic}\n"
    assert sides.committed(f"g-{sides.topic}") == {0: 6}


def test_a_record_that_the_target_refuses_ends_the_copy_and_is_named(sides: Sides) -> None:
    sides.create(1)
    sides.write([*numbered(2, 1), {"value": "x" * 20_000, "partition": 0}, *numbered(2, 1)])
    group = f"g-{sides.topic}"
    ended = sides.copy("-g", group, "-o", "json", code=1)
    (row,) = ended.items
    assert (row["error"], row["message"].split(":")[0]) == ("MESSAGE_TOO_LARGE", "offset 2")
    assert sides.committed(group)[0] <= 2
    assert sides.copy("-g", group, "--value", "!x*", "-o", "json").items[0]["next_offset"] == 5
    assert set(sides.values(sides.target)) == {"0", "1"}


def test_a_topic_that_is_created_anew_ends_the_copy(sides: Sides) -> None:
    sides.create(1)
    sides.write(numbered(5, 1))
    words = [*COMMAND, *sides.words("--follow")]
    with subprocess.Popen(words, stdout=subprocess.PIPE, stderr=subprocess.PIPE, env=sides.env) as process:
        until(lambda: len(sides.values(sides.target)) == 5)
        where = ("-b", sides.source.bootstrap)
        assert ottla("topics", "delete", sides.topic, "--yes", *where, env=sides.env).code == 0
        sides.source.create_topic(sides.topic, 1)
        sides.write(numbered(2, 1))
        _, stderr = process.communicate(timeout=PATIENCE_S)
    assert process.returncode == 1
    assert f"{sides.topic}-0 went back from offset 5 to 0: was the topic created anew?" in stderr.decode()
    assert len(sides.values(sides.target)) == 5


def test_a_record_of_the_targets_largest_size_is_copied(sides: Sides) -> None:
    sides.create(1)
    for broker in (sides.source, sides.target):
        large = ("configs", "set", f"topic/{sides.topic}", "max.message.bytes=9000000", "-b", broker.bootstrap)
        assert ottla(*large, env=sides.env).code == 0
    config = sides.config(max_request_size="9000000")
    where = ("-b", sides.source.bootstrap, "--command-config", config)
    assert ottla("produce", sides.topic, *where, stdin=b"x" * 5_000_000 + b"\ny\n", env=sides.env).code == 0
    sides.copy()
    assert [len(each) for each in sides.values(sides.target)] == [5_000_000, 1]


def test_a_pipe_gets_rows_and_a_terminal_a_bar_and_a_table(sides: Sides) -> None:
    sides.create()
    sides.write(numbered(30))
    ended = sides.copy()
    assert ended.rows == [
        [sides.topic, str(number), sides.topic, "0", "10", "10", "10", "10", "-", "-"] for number in range(3)
    ]
    assert ended.stderr == f"ottla: 30 records copied to {sides.topic}\n"
    shown = ottla_on_a_terminal(*sides.words(), env={**sides.env, "NO_COLOR": "1"})
    assert shown.code == 0
    assert "copying" in shown.stdout
    table = shown.stdout[shown.stdout.index("TOPIC ") :].splitlines()
    assert table[0].split() == [each.upper().replace("_", "-") for each in COLUMNS[:-2]]
    assert len(table) == 4


def test_other_formats_have_the_same_columns(sides: Sides) -> None:
    sides.create(1)
    assert sides.copy("-o", "csv").stdout.splitlines()[0] == ",".join(COLUMNS)
    assert tuple(json.loads(sides.copy("-o", "ndjson").stdout)) == COLUMNS
    assert sides.copy("-o", "yaml").stdout.startswith('schema: 1\ncommand: "copy"\ndry_run: false\n')


# Refusals


def test_a_topic_is_not_copied_onto_itself(sides: Sides) -> None:
    sides.create()
    sides.write(numbered(3))
    port = sides.source.bootstrap.rpartition(":")[2]
    for options in (("--as", sides.topic), ("--to", f"localhost:{port}"), ("--to", f"127.0.0.1:{port}")):
        ended = ottla("copy", sides.topic, *options, "-b", sides.source.bootstrap, "-o", "json", env=sides.env)
        assert (ended.code, ended.document["error"]["code"]) == (2, "Usage")
        assert "is source and target" in ended.stderr
    assert len(sides.values(sides.source)) == 3


def test_a_missing_topic_is_named_on_either_side(sides: Sides) -> None:
    assert "UNKNOWN_TOPIC_OR_PARTITION" in sides.copy(code=1).stderr
    sides.source.create_topic(sides.topic)
    assert f"the target topic {sides.topic} does not exist" in sides.copy(code=1).stderr
    sides.target.create_topic(sides.topic)
    assert f"{sides.topic} has no partition 7" in sides.copy("-p", "7", code=1).stderr
    assert sides.copy().code == 0


def test_a_cluster_that_cannot_be_reached_is_named(sides: Sides) -> None:
    sides.create()
    where = (("-b", NOBODY, "--to", sides.target.bootstrap), ("-b", sides.source.bootstrap, "--to", NOBODY))
    for options in where:
        ended = ottla("copy", sides.topic, *options, "-o", "json", env=sides.env)
        assert (ended.code, ended.document["error"]["code"]) == (1, "ConnectionFailed")
        assert NOBODY in ended.stderr


@pytest.mark.parametrize(
    "options",
    [
        [],
        ["--to-profile", "missing"],
        ["--to", "nowhere"],
        ["--to", NOBODY, "--follow", "--until", "end"],
        ["--to", NOBODY, "--follow", "--offset", "1:3"],
        ["--to", NOBODY, "--from", "1", "--offset", "2"],
        ["--to", NOBODY, "--from", "x"],
        ["--to", NOBODY, "-p", "x"],
        ["--to", NOBODY, "-n", "0"],
        ["--to", NOBODY, "--rate", "0"],
        ["--to", NOBODY, "--key", "/(/"],
        ["--to", NOBODY, "-z", "bzip2"],
    ],
)
def test_wrong_usage_copies_nothing(sides: Sides, options: list[str]) -> None:
    sides.source.create_topic(sides.topic)
    ended = ottla("copy", sides.topic, *options, "-b", sides.source.bootstrap, env=sides.env)
    assert (ended.code, ended.stdout) == (2, "")
    assert ended.stderr
    assert "Traceback" not in ended.stderr
