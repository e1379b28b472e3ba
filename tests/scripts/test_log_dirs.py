"""`ottla log-dirs` on a real broker with two directories."""

from collections.abc import Iterator
from pathlib import Path

import kafka
import pytest

from ottla import Broker
from tests.scripts.running import Ended, environment, ottla, ottla_on_a_terminal

pytestmark = pytest.mark.slow
PATIENCE_S = 30


@pytest.fixture(scope="module")
def dirs(tmp_path_factory: pytest.TempPathFactory) -> list[Path]:
    return [tmp_path_factory.mktemp(name) for name in ("one", "two")]


@pytest.fixture(scope="module")
def broker(dirs: list[Path]) -> Iterator[Broker]:
    with Broker(log_dirs=",".join(map(str, dirs))) as running:
        running.create_topic("filled", 2)
        producer = kafka.KafkaProducer(bootstrap_servers=running.bootstrap)
        producer.send("filled", b"v" * 1000, partition=0).get(PATIENCE_S)
        producer.close()
        yield running


def log_dirs(broker: Broker, tmp_path: Path, *arguments: str) -> Ended:
    return ottla("log-dirs", *arguments, "-b", broker.bootstrap, env=environment(tmp_path))


def test_a_row_sums_up_a_directory(broker: Broker, dirs: list[Path], tmp_path: Path) -> None:
    ended = log_dirs(broker, tmp_path, "-o", "json")
    assert ended.code == 0
    assert [each["log_dir"] for each in ended.items] == sorted(map(str, dirs))
    assert [each["replicas"] for each in ended.items] == [1, 1]
    assert sorted(each["size_bytes"] > 1000 for each in ended.items) == [False, True]
    assert all(each["total_bytes"] > each["usable_bytes"] > 0 for each in ended.items)
    assert all(each["future_replicas"] == each["max_offset_lag"] == 0 for each in ended.items)


def test_replicas_are_rows_the_largest_of_a_directory_first(broker: Broker, tmp_path: Path) -> None:
    ended = log_dirs(broker, tmp_path, "fill*", "--replicas", "-o", "json")
    found = {each["partition"]: (each["size_bytes"] > 1000, each["is_future"]) for each in ended.items}
    assert found == {0: (True, False), 1: (False, False)}


def test_topics_that_do_not_match_do_not_count(broker: Broker, tmp_path: Path) -> None:
    ended = log_dirs(broker, tmp_path, "other", "-o", "json")
    assert [(each["replicas"], each["size_bytes"]) for each in ended.items] == [(0, 0), (0, 0)]


def test_an_unknown_broker_fails(broker: Broker, tmp_path: Path) -> None:
    ended = log_dirs(broker, tmp_path, "--brokers", "9")
    assert (ended.code, ended.rows[0][0], ended.rows[0][-2]) == (1, "9", "BROKER_NOT_AVAILABLE")


def test_a_terminal_shows_the_sum(broker: Broker, tmp_path: Path) -> None:
    ended = ottla_on_a_terminal("log-dirs", "-b", broker.bootstrap, env=environment(tmp_path))
    assert "ottla: 2 replicas, 1.1 kB" in ended.stdout
