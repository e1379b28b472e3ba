import re
from pathlib import Path

import pytest

from ottla.log.config import LogConfig
from ottla.log.future_logs import create_future
from ottla.log.manager import LogManager
from ottla.log.strays import make_way
from ottla.wire.errors import ErrorCode, KafkaError
from ottla.wire.types import TopicPartition
from tests.log.building import NOW_MS, append, produced

OLD, NEW = bytes(15) + b"\1", bytes(15) + b"\2"
TOPIC = "orders"
# UnifiedLog.StrayDirPattern of Kafka 3.9
KAFKAS_STRAY = re.compile(r"^(\S+)-(\S+)\.(\S+)-stray")


def manager(*directories: Path) -> LogManager:
    return LogManager(list(directories), broker_id=0, cluster_id="c")


def found(*directories: Path, topic: str = TOPIC, ids: tuple[bytes | None, ...] = (OLD,)) -> LogManager:
    """Return a manager as after a start that found stray logs of a topic, one partition for each id."""
    before = manager(*directories)
    for partition, topic_id in enumerate(ids):
        log = before.get_or_create(TopicPartition(topic, partition), topic_id, LogConfig(), NOW_MS)
        append(log, produced(3))
    before.shutdown()
    logs = manager(*directories)
    logs.load(NOW_MS)
    logs.strays[topic] = set(range(len(ids)))
    return logs


def names(directory: Path) -> list[str]:
    """Return the names of the directories without the random part."""
    return sorted(re.sub("[.][0-9a-f]{32}-", ".ID-", path.name) for path in directory.iterdir() if path.is_dir())


def records(directory: Path) -> bytes:
    return b"".join(path.read_bytes() for path in sorted(directory.glob("*.log")))


def test_all_partitions_of_the_old_topic_are_set_aside_and_lose_nothing(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    logs = found(tmp_path, ids=(OLD, OLD, OLD))
    old = records(tmp_path / "orders-0")
    make_way(logs, TOPIC, NEW)
    assert names(tmp_path) == ["orders-0.ID-stray", "orders-1.ID-stray", "orders-2.ID-stray"]
    assert logs.logs == {}
    assert logs.log_counts == {tmp_path: 0}
    log = logs.get_or_create(TopicPartition(TOPIC, 0), NEW, LogConfig(), NOW_MS)
    append(log, produced(1))
    assert (log.log_end_offset, log.topic_id) == (1, NEW)
    (stray,) = tmp_path.glob("orders-0.*-stray")
    assert records(stray) == old
    assert caplog.text.count("is marked as stray and renamed to") == 3
    assert f"orders-0 is marked as stray and renamed to {stray}" in caplog.text
    logs.shutdown()


def test_a_stray_log_gets_kafkas_name_for_a_topic_name_of_any_length(tmp_path: Path) -> None:
    topic = "x" * 245
    logs = found(tmp_path, topic=topic)
    make_way(logs, topic, NEW)
    (stray,) = (path.name for path in tmp_path.iterdir() if path.is_dir())
    assert len(stray) == 255
    match = KAFKAS_STRAY.fullmatch(stray)
    assert match is not None
    assert (set(match[1]), match[2], len(match[3])) == ({"x"}, "0", 32)
    logs.shutdown()


def test_a_log_without_an_id_is_set_aside_and_a_log_with_the_topics_id_is_not(tmp_path: Path) -> None:
    logs = found(tmp_path, ids=(None, NEW))
    make_way(logs, TOPIC, NEW)
    assert names(tmp_path) == ["orders-0.ID-stray", "orders-1"]
    assert logs.get_or_create(TopicPartition(TOPIC, 1), NEW, LogConfig(), NOW_MS).log_end_offset == 3
    # They stay until this topic is deleted, because deletion takes only known partitions.
    make_way(logs, TOPIC, OLD)
    assert names(tmp_path) == ["orders-0.ID-stray", "orders-1.ID-stray"]
    logs.shutdown()


def test_logs_that_are_not_stray_are_not_set_aside(tmp_path: Path) -> None:
    logs = found(tmp_path)
    logs.strays[TOPIC] = {1}
    make_way(logs, TOPIC, NEW)
    assert names(tmp_path) == ["orders-0"]
    assert TopicPartition(TOPIC, 0) in logs.logs
    logs.shutdown()


def test_a_future_log_is_set_aside_with_its_log(tmp_path: Path) -> None:
    here, there = tmp_path / "a", tmp_path / "b"
    logs = found(here, there)
    create_future(logs, TopicPartition(TOPIC, 0), there, NOW_MS)
    make_way(logs, TOPIC, NEW)
    assert (names(here), names(there)) == (["orders-0.ID-stray"], ["orders-0.ID-stray"])
    assert logs.futures == {}
    logs.shutdown()


def test_the_next_start_leaves_a_stray_log_alone(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    logs = found(tmp_path)
    make_way(logs, TOPIC, NEW)
    logs.shutdown()
    again = manager(tmp_path)
    again.load(NOW_MS)
    assert again.logs == {}
    assert names(tmp_path) == ["orders-0.ID-stray"]
    assert "-stray is a stray log: the broker leaves it alone" in caplog.text
    again.shutdown()


def test_a_directory_that_cannot_be_renamed_fails(tmp_path: Path) -> None:
    logs = found(tmp_path)
    (tmp_path / "orders-0").rename(tmp_path / "elsewhere")
    with pytest.raises(KafkaError) as refused:
        make_way(logs, TOPIC, NEW)
    assert refused.value.code is ErrorCode.KAFKA_STORAGE_ERROR
    assert logs.online == []
    logs.abandon()
