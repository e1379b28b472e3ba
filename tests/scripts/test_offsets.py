"""`ottla offsets` on a real broker."""

from collections.abc import Iterator
from pathlib import Path

import kafka
import pytest

from ottla import Broker
from tests.scripts.running import Ended, environment, ottla

pytestmark = pytest.mark.slow
BEGIN_MS = 1_700_000_000_000
PATIENCE_S = 30


@pytest.fixture(scope="module")
def broker() -> Iterator[Broker]:
    with Broker(log_retention_ms=-1) as running:
        running.create_topic("filled", 2)
        producer = kafka.KafkaProducer(bootstrap_servers=running.bootstrap)
        for number in range(5):
            producer.send("filled", b"v", partition=0, timestamp_ms=BEGIN_MS + number * 1000).get(PATIENCE_S)
        producer.close()
        yield running


def offsets(broker: Broker, tmp_path: Path, *arguments: str) -> Ended:
    return ottla("offsets", *arguments, "-b", broker.bootstrap, env=environment(tmp_path))


@pytest.mark.parametrize(
    ("at", "offset", "timestamp"),
    [
        ("latest", "5", "-"),
        ("earliest", "0", "-"),
        ("max-timestamp", "4", str(BEGIN_MS + 4000)),
        (str(BEGIN_MS + 1500), "2", str(BEGIN_MS + 2000)),
        ("2023-11-14T22:13:22Z", "2", str(BEGIN_MS + 2000)),
        ("1h", "-", "-"),
    ],
)
def test_an_offset_is_that_of_a_place_or_of_a_time(
    broker: Broker, tmp_path: Path, at: str, offset: str, timestamp: str
) -> None:
    ended = offsets(broker, tmp_path, "filled:0", "--at", at)
    assert ended.code == 0
    assert [row[:4] for row in ended.rows] == [["filled", "0", offset, timestamp]]


def test_partitions_that_do_not_exist_fail_one_by_one(broker: Broker, tmp_path: Path) -> None:
    ended = offsets(broker, tmp_path, "filled:1,7", "gone", "-o", "json")
    assert ended.code == 1
    found = [(each["topic"], each["partition"], each["offset"], each["error"]) for each in ended.items]
    assert found == [
        ("filled", 1, 0, None),
        ("filled", 7, None, "UNKNOWN_TOPIC_OR_PARTITION"),
        ("gone", None, None, "UNKNOWN_TOPIC_OR_PARTITION"),
    ]


def test_an_invalid_time_is_wrong_usage(broker: Broker, tmp_path: Path) -> None:
    ended = offsets(broker, tmp_path, "filled", "--at", "noon")
    assert ended.code == 2
    assert "noon" in ended.stderr
