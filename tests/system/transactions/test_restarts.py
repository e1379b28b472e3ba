"""Transactions that are open, or decided, when the broker ends: they go on after its next start."""

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from compat_tests.support.clients import create_topic
from ottla import Broker
from ottla.coordinator.transaction import NO_PRODUCER_ID
from ottla.coordinator.transaction_records import read_transaction_key, read_transaction_value, transaction_record
from ottla.wire.errors import ErrorCode
from ottla.wire.records.batch_header import iter_batches
from ottla.wire.records.builder import NewRecord, build_batch
from ottla.wire.records.reader import iter_records
from tests.system.transactions.asking import (
    PATIENCE_S,
    described,
    wait_for,
    wait_for_state,
    wait_until_all_has_ended,
)
from tests.system.transactions.copying import read_committed
from tests.system.transactions.producing import (
    ABORT,
    COMMIT,
    PARTITIONS,
    READ,
    TOPIC,
    End,
    commit_offset,
    committed_offset,
    producer,
    write,
)

pytestmark = [pytest.mark.once, pytest.mark.slow]

PENDING = -ErrorCode.UNSTABLE_OFFSET_COMMIT
NAME = "tx"
FIRST = {0: b"first 0", 1: b"first 1"}
SECOND = {1: b"second 1", 2: b"second 2"}
NOTHING: dict[int, list[bytes]] = {0: [], 1: [], 2: []}


@pytest.fixture
def broker() -> Iterator[Broker]:
    with Broker(offsets_topic_num_partitions=1, transaction_state_log_num_partitions=1) as broker:
        create_topic(broker.bootstrap, TOPIC, len(PARTITIONS))
        create_topic(broker.bootstrap, READ)
        yield broker


@pytest.mark.parametrize(
    ("end_broker", "end"),
    [(Broker.stop, COMMIT), (Broker.kill, COMMIT), (Broker.kill, ABORT)],
    ids=["stop commit", "kill commit", "kill abort"],
)
def test_an_open_transaction_goes_on_after_a_restart(
    broker: Broker, end_broker: Callable[[Broker], None], end: End
) -> None:
    where = broker.bootstrap
    writer = producer(where, NAME)
    writer.begin_transaction()
    commit_offset(writer, 1, where)
    writer.commit_transaction(PATIENCE_S)

    writer.begin_transaction()
    write(writer, FIRST)
    commit_offset(writer, 7, where)
    before = described(where, NAME)
    end_broker(broker)
    broker.start()
    assert wait_for_state(where, NAME, "Ongoing") == before
    assert {each.topic: sorted(each.partitions) for each in before.topics} == {TOPIC: [0, 1], "__consumer_offsets": [0]}
    assert read_committed(where, TOPIC, PARTITIONS) == NOTHING
    # The offset of the transaction before counts, except for readers that want to wait.
    assert wait_for(lambda: committed_offset(where, stable=True)) == PENDING
    assert committed_offset(where, stable=False) == 1

    write(writer, SECOND)
    end(writer, PATIENCE_S)
    wait_until_all_has_ended(where)
    written = {0: [b"first 0"], 1: [b"first 1", b"second 1"], 2: [b"second 2"]}
    assert read_committed(where, TOPIC, PARTITIONS) == (written if end is COMMIT else NOTHING)
    assert committed_offset(where, stable=True) == (7 if end is COMMIT else 1)
    assert described(where, NAME).transaction_state == ("CompleteCommit" if end is COMMIT else "CompleteAbort")


@pytest.mark.parametrize("end", [COMMIT, ABORT], ids=["commit", "abort"])
def test_a_decided_transaction_gets_its_markers_after_a_restart(broker: Broker, end: End) -> None:
    where = broker.bootstrap
    writer = producer(where, NAME)
    writer.begin_transaction()
    write(writer, FIRST)
    commit_offset(writer, 7, where)
    broker.kill()
    decide(broker.folder / "data", end is COMMIT)
    broker.start()
    wait_until_all_has_ended(where)
    written = {0: [b"first 0"], 1: [b"first 1"], 2: []}
    assert read_committed(where, TOPIC, PARTITIONS) == (written if end is COMMIT else NOTHING)
    assert committed_offset(where, stable=True) == (7 if end is COMMIT else -1)
    # The producer did not get the answer, and asks again.
    end(writer, PATIENCE_S)
    writer.begin_transaction()
    write(writer, SECOND)
    writer.commit_transaction(PATIENCE_S)
    wait_until_all_has_ended(where)
    found = read_committed(where, TOPIC, PARTITIONS)
    assert [found[each][-1] for each in SECOND] == [*SECOND.values()]


def decide(data: Path, is_commit: bool) -> None:
    """Append the result of the open transaction to its log, as if the broker had ended before it sent markers."""
    (segment,) = (data / "__transaction_state-0").glob("*.log")
    batches = list(iter_batches(memoryview(segment.read_bytes())))
    header = batches[-1][0]
    record = list(iter_records(batches[-1][1]))[-1]
    assert record.key is not None
    assert record.value is not None
    transaction = read_transaction_value(record.value)
    ended = transaction.ended(is_commit, 0, NO_PRODUCER_ID, record.timestamp)
    key, value = transaction_record(read_transaction_key(record.key), ended, 0)
    batch = build_batch(
        [NewRecord(key, value, record.timestamp)],
        base_offset=header.last_offset + 1,
        leader_epoch=header.partition_leader_epoch,
    )
    with segment.open("ab") as file:
        file.write(batch)


def test_an_open_transaction_whose_producer_is_gone_ends_when_the_next_one_begins(broker: Broker) -> None:
    where = broker.bootstrap
    first = producer(where, NAME)
    first.begin_transaction()
    write(first, FIRST)
    broker.kill()
    broker.start()
    second = producer(where, NAME)
    wait_until_all_has_ended(where)
    second.begin_transaction()
    write(second, SECOND)
    second.commit_transaction(PATIENCE_S)
    assert wait_for(lambda: read_committed(where, TOPIC, PARTITIONS), lambda found: bool(found[2])) == {
        0: [],
        1: [b"second 1"],
        2: [b"second 2"],
    }
