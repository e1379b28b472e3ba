"""Copies of topics: what a record may be, topics that get more partitions, and copies that are kept as long."""

import logging
from collections.abc import Iterator, Mapping
from contextlib import closing, contextmanager
from datetime import datetime
from typing import Any, NamedTuple

import confluent_kafka
import pytest
from confluent_kafka.admin import AdminClient
from confluent_kafka.cimpl import NewPartitions

from compat_tests.support.brokers import Broker as AnyBroker
from compat_tests.support.clients import create_topic
from ottla import Broker
from ottla.pipeline import mirror
from ottla.pipeline.mirror import MirrorSink, OffsetSync, _copied
from ottla.pipeline.mirror_topics import CopiedTopics, changes, loses, take_over
from ottla.pipeline.positions import EARLIEST, LATEST, Config, Positions
from ottla.pipeline.topics import TopicSource
from tests.pipeline.jobs import keys

FRAME = (
    "topic string, partition int, offset bigint, timestamp timestamp, key binary, value binary,"
    " headers array<struct<key: string, value: binary>>"
)
NOW = datetime(2026, 1, 31, 12)


class Header(NamedTuple):
    key: str
    value: bytearray | bytes | None


class Row(NamedTuple):
    """A row as a task of Spark has it."""

    topic: str
    partition: int
    value: bytes
    headers: list[Header]
    offset: int = 7
    timestamp: datetime = NOW
    key: bytes | None = None


@pytest.fixture(scope="module")
def bootstrap() -> Iterator[str]:
    with Broker() as broker:
        yield broker.bootstrap


def consumed(bootstrap: str, topic: str, partition: int) -> Any:
    consumer = confluent_kafka.Consumer({"bootstrap.servers": bootstrap, "group.id": "test"})
    consumer.assign([confluent_kafka.TopicPartition(topic, partition, 0)])
    try:
        message = consumer.poll(30)
        assert message is not None
        assert message.error() is None
        return message
    finally:
        consumer.close()


def test_a_header_may_be_empty_and_a_record_as_large_as_the_broker_takes(bootstrap: str) -> None:
    create_topic(bootstrap, "a.large")
    # Spark has bytes as bytearrays before 4.1.
    headers = [Header("empty", bytearray()), Header("none", None), Header("some", bytearray(b"x"))]
    row = Row("large", 0, bytes(1_040_000), headers)
    assert list(_copied(bootstrap, "a.", [row])) == [OffsetSync("large", 0, 7, 0)]
    found = consumed(bootstrap, "a.large", 0)
    assert found.value() == row.value
    assert found.headers() == [("empty", b""), ("none", None), ("some", b"x")]


def test_a_topic_is_widened_but_never_made_smaller(bootstrap: str) -> None:
    create_topic(bootstrap, "wide", partitions=2)
    positions = Positions(bootstrap)
    try:
        for wanted, count in ((1, 2), (2, 2), (4, 4)):
            positions.widen("wide", wanted)
            assert len(positions.partitions(["wide"])) == count
    finally:
        positions.close()


LONG_AGO = datetime(2020, 1, 1)
DEFAULTS = {"cleanup.policy": "delete", "retention.ms": "604800000", "retention.bytes": "-1"}


def configs(own: dict[str, str] | None = None, **defaults: str) -> dict[str, Config]:
    """Configs as a broker tells them, with underscores for the dots of its defaults."""
    told = DEFAULTS | {key.replace("_", "."): value for key, value in defaults.items()}
    return {key: Config(value, False) for key, value in told.items()} | {
        key: Config(value, True) for key, value in (own or {}).items()
    }


def test_what_was_set_is_copied_and_what_was_unset_is_unset() -> None:
    assert changes(configs(), configs()) == {}
    assert changes(configs({"segment.ms": "1000"}), configs()) == {"segment.ms": "1000"}
    assert changes(configs({"segment.ms": "1000"}), configs(segment_ms="1000")) == {}
    assert changes(configs(segment_ms="1000"), configs(segment_ms="2000")) == {}
    assert changes(configs(), configs({"segment.ms": "1000"})) == {"segment.ms": None}


def test_how_long_records_are_kept_is_copied_where_it_is_the_brokers_default_too() -> None:
    assert changes(configs(retention_ms="-1"), configs()) == {"retention.ms": "-1"}
    assert changes(configs(), configs({"retention.bytes": "9"})) == {"retention.bytes": "-1"}
    assert changes(configs(), configs({"cleanup.policy": "compact"})) == {"cleanup.policy": "delete"}


def test_what_is_about_the_brokers_of_the_source_is_not_copied_nor_taken_from_the_copy() -> None:
    of_brokers = {
        "min.insync.replicas": "3",
        "leader.replication.throttled.replicas": "*",
        "follower.replication.throttled.replicas": "*",
        "message.timestamp.type": "LogAppendTime",
        "message.timestamp.before.max.ms": "1",
        "unclean.leader.election.enable": "true",
    }
    assert changes(configs(of_brokers), configs()) == {}
    assert changes(configs(), configs(of_brokers)) == {}


@pytest.mark.parametrize(
    ("source", "target", "loss"),
    [
        ({"retention.ms": "-1"}, {}, "it has cleanup.policy=delete, retention.ms=604800000, its source"),
        ({"retention.ms": "604800001"}, {}, "retention.ms=604800000, its source cleanup.policy=delete, retention.ms"),
        ({}, {"retention.ms": "-1"}, None),
        (
            {"cleanup.policy": "compact"},
            {},
            "cleanup.policy=delete, retention.ms=604800000, its source cleanup.policy=",
        ),
        ({"cleanup.policy": "compact"}, {"retention.ms": "-1"}, None),
        ({}, {"retention.bytes": "9"}, "it has cleanup.policy=delete, retention.bytes=9, its source"),
        ({}, {"cleanup.policy": "compact"}, "it has cleanup.policy=compact, its source cleanup.policy=delete"),
        ({"cleanup.policy": "compact,delete"}, {"cleanup.policy": "delete, compact"}, None),
    ],
)
def test_a_copy_that_would_be_deleted_sooner_than_its_source_is_found(
    source: dict[str, str], target: dict[str, str], loss: str | None
) -> None:
    found = loses(configs(source), configs(target))
    assert (found is None) if loss is None else (loss in str(found))


@contextmanager
def two(source: str, target: str) -> Iterator[tuple[Positions, Positions]]:
    with closing(Positions(source)) as theirs, closing(Positions(target)) as ours:
        yield theirs, ours


def copy(source: str, target: str, *topics: str) -> None:
    """Have copies of topics, with a record each of long ago."""
    with two(source, target) as (theirs, ours):
        CopiedTopics("a.").prepare(theirs, ours, topics)
    list(_copied(target, "a.", [Row(topic, 0, b"v", [], timestamp=LONG_AGO, key=b"k") for topic in topics]))


def wait_for_retention(bootstrap: str) -> None:
    """Have a topic with an old record, and wait until that is deleted: then all topics were looked at."""
    create_topic(bootstrap, "not-kept")
    list(_copied(bootstrap, "", [Row("not-kept", 0, b"v", [], timestamp=LONG_AGO)]))
    with closing(Positions(bootstrap)) as positions:
        while positions.at({("not-kept", 0): EARLIEST})["not-kept", 0] == 0:
            pass


@pytest.mark.slow
@pytest.mark.parametrize("is_kafka", [False, True], ids=["Ottla", "Kafka"])
def test_copies_of_what_is_kept_for_ever_survive_the_retention_of_their_cluster(
    apache_kafka: AnyBroker, is_kafka: bool
) -> None:
    with (
        Broker(log_retention_ms=-1) as source,
        Broker(log_retention_check_interval_ms=100, log_initial_task_delay_ms=0) as ottla,
    ):
        target = apache_kafka.bootstrap if is_kafka else ottla.bootstrap
        create_topic(source.bootstrap, "ever")
        create_topic(source.bootstrap, "compacted", config={"cleanup.policy": "compact", "min.insync.replicas": "2"})
        create_topic(source.bootstrap, "there", config={"max.message.bytes": "2000000"})
        create_topic(target, "a.there", config={"retention.ms": "1", "segment.ms": "9999"})
        topics = ("ever", "compacted", "there")
        copy(source.bootstrap, target, *topics)
        wait_for_retention(target)
        with two(source.bootstrap, target) as (_, ours):
            found = ours.at({(f"a.{topic}", 0): EARLIEST for topic in topics})
            ends = ours.at({(f"a.{topic}", 0): LATEST for topic in topics})
            own = {
                topic: {key: each.value for key, each in of.items() if each.is_own}
                for topic, of in ours.configs([f"a.{topic}" for topic in topics]).items()
            }
    assert (set(found.values()), set(ends.values())) == ({0}, {1})
    assert own == {
        "a.ever": {"retention.ms": "-1"},
        "a.compacted": {"cleanup.policy": "compact", "retention.ms": "-1"},
        "a.there": {"retention.ms": "-1", "max.message.bytes": "2000000"},
    }


def test_what_a_cluster_refuses_keeps_nothing_else_from_being_set() -> None:
    altered: dict[str, str | None] = {}

    def alter(changes: Mapping[str, str | None]) -> str | None:
        if "segment.ms" in changes:
            return "no segment.ms"
        altered.update(changes)
        return None

    own = {"segment.ms": "9", "retention.ms": "-1", "max.message.bytes": "7"}
    assert take_over(configs(own), configs(), alter) == ({"segment.ms": "no segment.ms"}, None)
    assert altered == {"retention.ms": "-1", "max.message.bytes": "7"}


def test_a_copy_whose_cluster_refuses_to_keep_it_as_long_is_refused() -> None:
    refused, loss = take_over(configs({"retention.ms": "-1", "segment.ms": "9"}), configs(), lambda changes: "no")
    assert refused == {"retention.ms": "no", "segment.ms": "no"}
    assert loss == (
        "it has cleanup.policy=delete, retention.ms=604800000, its source cleanup.policy=delete, retention.ms=-1"
    )


@pytest.mark.slow
def test_a_config_that_a_cluster_does_not_know_is_told_once(
    apache_kafka: AnyBroker, bootstrap: str, caplog: pytest.LogCaptureFixture
) -> None:
    own = {"internal.segment.bytes": "100000", "segment.ms": "9999", "cleanup.policy": ""}
    create_topic(apache_kafka.bootstrap, "newer", config=own)
    copies = CopiedTopics("b.")
    with two(apache_kafka.bootstrap, bootstrap) as (theirs, ours), caplog.at_level(logging.WARNING, "ottla.pipeline"):
        for _ in range(2):
            copies.prepare(theirs, ours, ["newer"])
        found = ours.configs(["b.newer"])["b.newer"]
    assert (found["cleanup.policy"], found["segment.ms"]) == (("", True), ("9999", True))
    (line,) = caplog.messages
    assert line.startswith(f"{bootstrap} refuses internal.segment.bytes for b.newer, which goes on without: ")


@pytest.mark.slow
def test_a_copy_gets_the_partitions_and_configs_that_its_topic_got(
    spark: Any, bootstrap: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(mirror, "_LOOK_EVERY_S", 0.0)
    create_topic(bootstrap, "grows")
    source = TopicSource(keys("source", topics_regex="g\\p{javaLowerCase}ows"), bootstrap)
    sink = MirrorSink(keys("sink", topic_prefix="a."), bootstrap, source)

    def write(batch: int, partition: int) -> None:
        row = ("grows", partition, batch, NOW, None, b"%d" % batch, None)
        sink.write(spark.createDataFrame([row], FRAME).coalesce(1), "q", batch)
        assert consumed(bootstrap, "a.grows", partition).value() == b"%d" % batch

    write(0, 0)
    admin = AdminClient({"bootstrap.servers": bootstrap})
    admin.create_partitions([NewPartitions("grows", 3)])["grows"].result(120)
    with closing(Positions(bootstrap)) as positions:
        assert positions.alter_configs("grows", {"retention.ms": "-1"}) is None
        write(1, 2)
        assert positions.configs(["a.grows"])["a.grows"]["retention.ms"] == ("-1", True)
