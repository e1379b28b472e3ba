"""`ottla delete-records` on a real broker."""

import re
from collections.abc import Iterator
from pathlib import Path

import kafka
import pytest

from ottla import Broker
from tests.scripts.running import Ended, environment, ottla, ottla_on_a_terminal

pytestmark = pytest.mark.slow
BEGIN_MS = 1_700_000_000_000
PATIENCE_S = 30


@pytest.fixture(scope="module")
def running_broker() -> Iterator[Broker]:
    with Broker(log_retention_ms=-1) as running:
        yield running


@pytest.fixture
def topic(running_broker: Broker, request: pytest.FixtureRequest) -> str:
    """Create a topic of two partitions, with ten records in the first one; return its name."""
    name: str = re.sub(r"[^\w-]", "-", request.node.name)
    running_broker.create_topic(name, 2)
    producer = kafka.KafkaProducer(bootstrap_servers=running_broker.bootstrap)
    for number in range(10):
        producer.send(name, b"v", partition=0, timestamp_ms=BEGIN_MS + number * 1000).get(PATIENCE_S)
    producer.close()
    return name


@pytest.fixture
def env(tmp_path: Path) -> dict[str, str]:
    return environment(tmp_path)


def delete(broker: Broker, env: dict[str, str], *arguments: str) -> Ended:
    return ottla("delete-records", *arguments, "-b", broker.bootstrap, env=env)


def beginning(broker: Broker, env: dict[str, str], topic: str) -> str:
    ended = ottla("offsets", f"{topic}:0", "--at", "earliest", "-b", broker.bootstrap, env=env)
    return ended.rows[0][2]


@pytest.mark.parametrize(
    ("before", "first_left"), [("3", "3"), ("latest", "10"), ("99", "10"), ("2023-11-14T22:13:24Z", "4"), ("@1h", "10")]
)
def test_records_before_an_offset_or_a_time_are_deleted(
    running_broker: Broker, topic: str, env: dict[str, str], before: str, first_left: str
) -> None:
    ended = delete(running_broker, env, topic, "--before", before, "--yes")
    assert ended.code == 0
    assert [row[:6] for row in ended.rows] == [
        [topic, "0", "0", first_left, first_left, first_left],
        [topic, "1", "0", "0", "0", "-"],
    ]
    assert beginning(running_broker, env, topic) == first_left


def test_a_dry_run_prints_how_many_records_would_be_deleted(
    running_broker: Broker, topic: str, env: dict[str, str]
) -> None:
    ended = delete(running_broker, env, f"{topic}:0", "--before", "3", "--dry-run", "-o", "json")
    assert (ended.code, ended.document["dry_run"]) == (0, True)
    assert [(each["records"], each["low_watermark"]) for each in ended.items] == [(3, None)]
    assert beginning(running_broker, env, topic) == "0"


def test_nothing_is_deleted_without_a_terminal_to_ask(running_broker: Broker, topic: str, env: dict[str, str]) -> None:
    ended = delete(running_broker, env, topic, "--before", "3")
    assert ended.code == 2
    assert f"Delete up to 3 records of a partition ({topic})?" in ended.stderr
    assert beginning(running_broker, env, topic) == "0"


def test_nothing_is_deleted_after_the_answer_no(running_broker: Broker, topic: str, env: dict[str, str]) -> None:
    arguments = ("delete-records", topic, "--before", "3", "-b", running_broker.bootstrap)
    ended = ottla_on_a_terminal(*arguments, typed=[("[y/N]", "n\n")], env=env)
    assert ended.code == 1
    assert "nothing was changed" in ended.stdout
    assert beginning(running_broker, env, topic) == "0"


def test_a_partition_that_does_not_exist_fails_and_others_do_not(
    running_broker: Broker, topic: str, env: dict[str, str]
) -> None:
    ended = delete(running_broker, env, f"{topic}:0,7", "gone", "--before", "3", "--yes", "-o", "json")
    assert ended.code == 1
    found = {(each["topic"], each["partition"]): each["error"] for each in ended.items}
    missing = "UNKNOWN_TOPIC_OR_PARTITION"
    assert found == {(topic, 0): None, (topic, 7): missing, ("gone", None): missing}
    assert beginning(running_broker, env, topic) == "3"


def test_a_topic_whose_records_may_not_be_deleted_fails(running_broker: Broker, env: dict[str, str]) -> None:
    options = ("-c", "cleanup.policy=compact", "-b", running_broker.bootstrap)
    assert ottla("topics", "create", "compacted", *options, env=env).code == 0
    producer = kafka.KafkaProducer(bootstrap_servers=running_broker.bootstrap)
    producer.send("compacted", b"v", b"k").get(PATIENCE_S)
    producer.close()
    ended = delete(running_broker, env, "compacted", "--before", "latest", "--yes")
    assert ended.code == 1
    assert ended.rows[0][6] == "POLICY_VIOLATION"
