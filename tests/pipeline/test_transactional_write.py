"""One task's records of a batch, on Apache Kafka and on Ottla: tried again, interrupted, killed, overtaken."""

import contextlib
import itertools
import random
import signal
import subprocess
import sys
import time
from collections.abc import Iterable, Iterator

import confluent_kafka
import pytest
from kafka.protocol.api_key import ApiKey

from compat_tests.support.brokers import Broker, Ottla, running
from compat_tests.support.clients import PATIENCE_S, create_topic
from ottla.pipeline import transactions
from ottla.pipeline.settings import JobError
from ottla.pipeline.transactional_write import Record, Written, write_once
from ottla.pipeline.transactions import Batch, Target, check_transactions, kafka_settings
from tests.pipeline.committed import Seen, committed, messages

# An hour ago, in milliseconds; what is older than a week may be deleted at any time.
EARLIER = int(time.time()) * 1000 - 3_600_000
pytestmark = [pytest.mark.once, pytest.mark.slow]

FIRST = Batch("checkpoint", 0)
_names = itertools.count()


def new_target(broker: Broker, partitions: int = 3, tasks: int = 2, **options: str) -> Target:
    """Return where a query of its own writes: a topic of its own."""
    name = f"transactional-{next(_names)}"
    create_topic(broker.bootstrap, name, partitions)
    dotted = {f"kafka.{key.replace('_', '.')}": text for key, text in options.items()}
    return Target(kafka_settings({"kafka.bootstrap.servers": broker.bootstrap, **dotted}), name, name, tasks)


def records(target: Target, *values: bytes, partition: int = 0) -> list[Record]:
    return [Record(target.topic, None, value, partition=partition) for value in values]


def values(broker: Broker, target: Target) -> list[bytes | None]:
    return [seen.value for seen in committed(broker, target.topic)]


def test_a_batch_that_is_written_again_changes_nothing(transactional: Broker) -> None:
    target = new_target(transactional)
    headers = (("trace", b"1"), ("trace", b""))
    first = [
        Record(target.topic, b"key", b"value", headers, partition=1, timestamp_ms=EARLIER),
        Record(target.topic, b"tombstone", None, partition=1),
        Record(target.topic, None, None, (("of nothing", b"at all"),), partition=1),
        Record(target.topic, b"k", b"", partition=1),
    ]
    expected = [Seen(1, record.key, record.value, tuple(record.headers)) for record in first]
    assert write_once(target, 0, FIRST, first) == Written(4)
    assert write_once(target, 0, FIRST, first) == Written(0, repeated=True)
    assert committed(transactional, target.topic) == expected
    assert messages(transactional, target.topic)[0].timestamp()[1] == EARLIER
    # Another task of the same batch, the batch after it, and another life of the query.
    assert write_once(target, 1, FIRST, records(target, b"task 1")) == Written(1)
    assert write_once(target, 0, Batch("checkpoint", 1), records(target, b"batch 1")) == Written(1)
    assert write_once(target, 0, Batch("checkpoint", 1), records(target, b"batch 1")) == Written(0, repeated=True)
    assert write_once(target, 0, Batch("checkpoint", 2), []) == Written(0)
    assert write_once(target, 0, Batch("another", 1), records(target, b"another")) == Written(1)
    assert values(transactional, target) == [b"task 1", b"batch 1", b"another", *(seen.value for seen in expected)]


def test_records_without_a_partition_go_where_other_clients_send_their_keys(apache_kafka: Broker) -> None:
    target, other = new_target(apache_kafka), new_target(apache_kafka)
    keys = [
        b"",
        b"a",
        b"key",
        b"a longer key of 30 characters.",
        b"\xd0\xba\xff",
        b"1",
        b"22",
        b"333",
    ]
    write_once(target, 0, FIRST, [Record(target.topic, key, b"") for key in keys])
    stock = confluent_kafka.Producer({"bootstrap.servers": apache_kafka.bootstrap, "partitioner": "murmur2_random"})
    for key in keys:
        stock.produce(other.topic, b"", key)
    assert stock.flush(PATIENCE_S) == 0
    assert committed(apache_kafka, target.topic) == committed(apache_kafka, other.topic)


def test_what_an_attempt_leaves_half_written_is_not_seen_and_the_next_one_writes_all(transactional: Broker) -> None:
    target = new_target(transactional)

    def broken() -> Iterator[Record]:
        yield from records(target, *[b"x" * 1_000_000] * 10)
        raise OSError("the disk is gone")

    with pytest.raises(OSError, match="the disk is gone"):
        write_once(target, 0, FIRST, broken())
    assert write_once(target, 0, FIRST, records(target, b"a", b"b")) == Written(2)
    # Nothing waits for the end of the first transaction's time.
    assert values(transactional, target) == [b"a", b"b"]


def test_an_attempt_that_was_overtaken_cannot_commit(transactional: Broker) -> None:
    target = new_target(transactional)

    def overtaken() -> Iterator[Record]:
        yield from records(target, *[b"x" * 1_000_000] * 10)
        assert write_once(target, 0, FIRST, records(target, b"a", b"b")) == Written(2)
        yield from records(target, b"late")

    with pytest.raises(JobError, match=r"task 0 of batch 0 was given up: another attempt at it has begun"):
        write_once(target, 0, FIRST, overtaken())
    assert write_once(target, 0, FIRST, records(target, b"a", b"b")) == Written(0, repeated=True)
    assert values(transactional, target) == [b"a", b"b"]


def test_a_broker_that_does_not_answer_ends_the_attempt_and_the_next_one_writes_all(apache_kafka: Broker) -> None:
    target = new_target(apache_kafka, delivery_timeout_ms="3000", request_timeout_ms="2000")

    def stopping() -> Iterator[Record]:
        yield from records(target, b"a", b"b")
        apache_kafka.process.send_signal(signal.SIGSTOP)

    try:
        with pytest.raises(JobError, match=r"task 0 of batch 0 could not be written: Kafka.*Error"):
            write_once(target, 0, FIRST, stopping())
    finally:
        apache_kafka.process.send_signal(signal.SIGCONT)
    assert write_once(target, 0, FIRST, records(target, b"a", b"b")) == Written(2)
    assert values(apache_kafka, target) == [b"a", b"b"]


@pytest.mark.trials(few=10, soak=50)
def test_a_writer_killed_at_any_moment_has_written_all_of_a_batch_or_nothing(
    transactional: Broker, trials: int, seed: int
) -> None:
    chance = random.Random(seed)
    target = new_target(transactional, tasks=1)
    repeated = {}
    for number in range(trials):
        # It is killed as soon as it begins, somewhere around its commit, or when it is done.
        said, wait_s = ((1, 0.0), (2, chance.uniform(0, 0.1)), (3, 0.0))[number % 3]
        command = [sys.executable, "-m", "tests.pipeline.writing_task", transactional.bootstrap, target.topic]
        with subprocess.Popen([*command, str(number)], stdout=subprocess.PIPE) as child:
            assert child.stdout
            for _ in range(said):
                assert child.stdout.readline()
            with contextlib.suppress(subprocess.TimeoutExpired):
                child.wait(wait_s)
            child.kill()
        repeated[number] = write_once(target, 0, Batch("checkpoint", number), batch_of(target.topic, number)).repeated
    assert values(transactional, target) == [each.value for n in range(trials) for each in batch_of(target.topic, n)]
    assert not repeated[0]
    assert repeated[2]


def batch_of(topic: str, number: int) -> list[Record]:
    """Return the records of a batch, as the child writes them."""
    return [Record(topic, None, b"%d-%d" % (number, each), partition=0) for each in range(50)]


@pytest.mark.parametrize(
    ("record", "reason"),
    [
        (Record("", b"k", b"v"), "topic"),
        (Record("missing", b"k", b"v"), "cannot be written: KafkaTimeoutError"),
        (Record("?", None, b"v", partition=7), r"\(key None, value b'v'\) cannot be written: Unrecognized partition 7"),
        (Record("?", None, b"v", partition=-1), "cannot be written: partition must be >= 0"),
        (Record("?", None, b"v", [("h", None)]), "cannot be written: All headers items"),  # type: ignore[list-item]
        (Record("?", None, b"v" * 2_000_000), "value b'vvv.* cannot be written: .*MessageSizeTooLargeError"),
    ],
)
def test_a_record_that_cannot_be_written_is_named(apache_kafka: Broker, record: Record, reason: str) -> None:
    target = new_target(apache_kafka, max_block_ms="1000")
    record = record._replace(topic=target.topic if record.topic == "?" else record.topic)
    with pytest.raises(JobError, match=reason):
        write_once(target, 0, FIRST, [*records(target, b"good"), record])
    assert values(apache_kafka, target) == []


def test_what_cannot_follow_what_was_written_is_refused(apache_kafka: Broker) -> None:
    target = new_target(apache_kafka)
    write_once(target, 0, Batch("checkpoint", 3), records(target, b"a"))

    def refused(task: int, tasks: int, batch: Batch, some: Iterable[Record]) -> str:
        with pytest.raises(JobError) as failure:
            write_once(Target(target.kafka, target.topic, target.query, tasks), task, batch, some)
        return str(failure.value).removeprefix(f"{target.query}: ")

    some = records(target, b"b")
    assert refused(0, 2, Batch("checkpoint", 2), some).startswith("batch 2 comes after batch 3 was committed")
    assert refused(0, 3, Batch("checkpoint", 4), some).startswith("its checkpoint began with 2 tasks")
    # A task that there was not knows it from the others.
    assert refused(2, 3, Batch("checkpoint", 4), some).startswith("its checkpoint began with 2 tasks")
    assert refused(0, 4, Batch("checkpoint", 4), some) == f"4 tasks are more than {target.topic} has partitions (3)"
    assert values(apache_kafka, target) == [b"a"]


def test_brokers_without_transactions_are_refused_by_name(
    apache_kafka: Broker, monkeypatch: pytest.MonkeyPatch
) -> None:
    check_transactions(apache_kafka.bootstrap)
    with running(Ottla) as ottla:
        check_transactions(ottla.bootstrap)
        # As if transactions needed something that this broker does not have.
        needed = (*transactions._NEEDED, ApiKey.CreateDelegationToken)
        monkeypatch.setattr(transactions, "_NEEDED", needed)
        with pytest.raises(JobError) as failure:
            check_transactions(ottla.bootstrap)
    expected = f"the broker at {ottla.bootstrap} has no transactions (no CreateDelegationToken)"
    assert str(failure.value) == expected
    with pytest.raises(JobError, match=f"no broker answers at {ottla.bootstrap}"):
        check_transactions(ottla.bootstrap, {"kafka.bootstrap.timeout.ms": "1000"})
