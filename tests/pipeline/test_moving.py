"""A job that does not run is moved, and its group shows where it is."""

import time
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import confluent_kafka
import pytest

from compat_tests.support.clients import create_topic
from ottla import Broker
from ottla.pipeline import moving
from ottla.pipeline.checkpoint import Checkpoint, CheckpointError, Offsets
from ottla.pipeline.job import Job
from ottla.pipeline.job_file import of_texts
from ottla.pipeline.positions import EARLIEST, LATEST, NoTopicError, Positions
from ottla.pipeline.settings import JobError
from tests.harness.measuring import AtMost

pytestmark = pytest.mark.slow
A_DAY_MS = 86_400_000


@pytest.fixture(scope="module")
def broker() -> Iterator[Broker]:
    """A broker whose topics have two partitions of ten records each."""
    with Broker() as broker:
        producer = confluent_kafka.Producer({"bootstrap.servers": broker.bootstrap})
        for topic in ("a", "b", "other"):
            create_topic(broker.bootstrap, topic, partitions=2)
            for number in range(20):
                producer.produce(topic, b"v", partition=number % 2)
        assert producer.flush(120) == 0
        yield broker


@pytest.fixture
def kept(tmp_path: Path) -> Checkpoint:
    return Checkpoint(tmp_path / "job")


def job(broker: Broker, **source: str) -> Job:
    keys = {"bootstrap.servers": broker.bootstrap, "group.id": "moved", "source.type": "topic", "sink.type": "console"}
    given = {f"source.{key.replace('_', '.')}": value for key, value in source.items()}
    return Job(of_texts({**keys, **given}, "job"))


def done(kept: Checkpoint, offsets: str) -> None:
    """Have the job done one batch."""
    for folder, text in (("offsets", f"v1\n{{}}\n{offsets}"), ("commits", "v1\n{}")):
        (kept.spark / folder).mkdir(parents=True)
        (kept.spark / folder / "0").write_text(text)


def shown(broker: Broker) -> Offsets:
    """What the group shows."""
    consumer = confluent_kafka.Consumer({"bootstrap.servers": broker.bootstrap, "group.id": "moved"})
    wanted = [confluent_kafka.TopicPartition(topic, each) for topic in ("a", "b") for each in (0, 1)]
    found: Offsets = {}
    for each in consumer.committed(wanted, timeout=120):
        if each.offset >= 0:
            found.setdefault(each.topic, {})[str(each.partition)] = each.offset
    consumer.close()
    return found


@pytest.mark.parametrize(
    ("source", "read"),
    [
        ({"topics": "a, b"}, {"a": {"0": 0, "1": 0}, "b": {"0": 0, "1": 0}}),
        ({"topics_regex": "[ab]"}, {"a": {"0": 0, "1": 0}, "b": {"0": 0, "1": 0}}),
        ({"partitions": '{"b": [1]}'}, {"b": {"1": 0}}),
    ],
)
def test_a_job_is_moved_in_all_that_it_reads(
    broker: Broker, kept: Checkpoint, source: dict[str, str], read: Offsets
) -> None:
    moved = job(broker, **source)
    moving.to_start(moved, kept)
    assert moving.to_time(moved, kept, EARLIEST) == kept.start() == shown(broker) == read
    ends = {topic: dict.fromkeys(of, 10) for topic, of in read.items()}
    assert moving.to_time(moved, kept, LATEST) == kept.start() == shown(broker) == ends


def test_a_job_stays_where_it_is_in_what_is_not_named(broker: Broker, kept: Checkpoint) -> None:
    moved = job(broker, topics="a,b", starting_offsets="latest")
    done(kept, '{"a":{"0":4,"1":5},"b":{"0":6},"gone":{"0":1}}')
    # What is null, and what the job has not seen, begins where its file says.
    expected = {"a": {"0": 10, "1": 2}, "b": {"0": 6, "1": 10}}
    assert moving.to_offsets(moved, kept, {("a", 0): None, ("a", 1): 2}) == expected
    assert kept.start() == shown(broker) == expected
    assert kept.batch() is None
    # It has not run since.
    expected["b"]["0"] = 0
    assert moving.to_offsets(moved, kept, {("b", 0): 0}) == kept.start() == expected


def test_a_job_stays_where_it_is_though_a_step_reads_another_input_first(broker: Broker, kept: Checkpoint) -> None:
    moved = job(broker, topics="a")
    done(kept, '{"other":{"0":9,"1":9}}\n{"a":{"0":4,"1":5}}\n{"a":{"0":4,"1":4}}')
    assert moving.to_offsets(moved, kept, {("a", 0): 3}) == {"a": {"0": 3, "1": 4}}


def test_a_job_begins_where_its_file_says_in_each_partition(broker: Broker, kept: Checkpoint) -> None:
    moved = job(broker, topics="a", starting_offsets='{"a": {"0": 7, "1": -1}}')
    assert moving.to_offsets(moved, kept, {("a", 0): None, ("a", 1): None}) == {"a": {"0": 7, "1": 10}}


def test_a_job_begins_anew(broker: Broker, kept: Checkpoint) -> None:
    moved = job(broker, topics="a")
    done(kept, '{"a":{"0":4,"1":5}}')
    moving.to_offsets(moved, kept, {("a", 0): 3})
    moving.to_start(moved, kept)
    assert (kept.start(), kept.offsets(), shown(broker)) == (None, [], {})
    # There is no group any more.
    moving.to_start(moved, kept)


def test_what_cannot_be_moved_stays_where_it_is(broker: Broker, kept: Checkpoint) -> None:
    moved = job(broker, topics="a")
    done(kept, '{"a":{"0":4,"1":5}}')
    for partition in (("b", 0), ("a", 2)):
        with pytest.raises(JobError, match="the job does not read"):
            moving.to_offsets(moved, kept, {partition: 0})
    with kept.locked(), pytest.raises(CheckpointError, match="the job runs already"):
        moving.to_start(moved, kept)
    assert kept.offsets() == [{"a": {"0": 4, "1": 5}}]


def test_a_pattern_that_only_java_knows_is_said_in_one_line(broker: Broker, kept: Checkpoint) -> None:
    with pytest.raises(JobError, match=r"^topics\.regex '\\\\Qa\\\\E' cannot be matched here: "):
        moving.to_time(job(broker, topics_regex=r"\Qa\E"), kept, EARLIEST)
    assert kept.start() is None


def test_a_job_without_topics_only_begins_anew(broker: Broker, kept: Checkpoint) -> None:
    moved = job(broker, type="rate")
    done(kept, '{"value":3}')
    with pytest.raises(JobError, match="only a job whose source are topics"):
        moving.to_offsets(moved, kept, {("a", 0): 0})
    moving.to_start(moved, kept)
    assert kept.batch() is None


def test_positions_know_topics_and_forget_groups(broker: Broker, at_most: AtMost) -> None:
    positions = Positions(broker.bootstrap)
    assert {"a", "b", "other"} <= set(positions.topics())
    positions.commit("forgotten", {"a": {"0": 1}}, 10)
    assert "__consumer_offsets" not in positions.topics()
    began = time.monotonic()
    with pytest.raises(NoTopicError, match="forgotten cannot commit gone-0"):
        positions.commit("forgotten", {"gone": {"0": 1}, "a": {"1": 1}}, 10)
    at_most(time.monotonic() - began, 5)
    positions.forget("forgotten", 10)
    positions.forget("forgotten")
    positions.close()


def test_where_a_moved_job_begins_is_said_of_the_partitions_that_there_are_when_it_runs(broker: Broker) -> None:
    topics = job(broker, topics="a").source.topics
    assert topics is not None
    with closing(Positions(broker.bootstrap)) as positions:
        begins = topics.completed({"a": {"0": 3}, "gone": {"0": 7}}, positions)
    assert begins == {"a": {"0": 3, "1": EARLIEST}}
