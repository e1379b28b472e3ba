"""Transactions that last too long are aborted, and transactional ids without use are deleted."""

from collections.abc import Iterator
from pathlib import Path

import confluent_kafka
import pytest

from compat_tests.support.brokers import Ottla
from compat_tests.support.clients import create_topic
from ottla.wire.errors import ErrorCode
from tests.system.transactions.asking import (
    PATIENCE_S,
    described,
    states,
    wait_for,
    wait_for_state,
    wait_until_all_has_ended,
)
from tests.system.transactions.copying import read_committed
from tests.system.transactions.producing import (
    PARTITIONS,
    READ,
    TOPIC,
    commit_offset,
    committed_offset,
    producer,
    write,
)

pytestmark = [pytest.mark.once, pytest.mark.slow]

NAME = "tx"
SHORT_MS = 2000
FEW_PARTITIONS = ["offsets.topic.num.partitions=1", "transaction.state.log.num.partitions=1"]
LOOKS = "transaction.abort.timed.out.transaction.cleanup.interval.ms"
FENCED = confluent_kafka.KafkaError._FENCED


@pytest.fixture
def broker(tmp_path: Path) -> Iterator[Ottla]:
    broker = Ottla(tmp_path, [*FEW_PARTITIONS, f"{LOOKS}=50"])
    broker.start()
    try:
        create_topic(broker.bootstrap, TOPIC, len(PARTITIONS))
        create_topic(broker.bootstrap, READ)
        yield broker
    finally:
        broker.stop()


@pytest.mark.parametrize("is_killed_meanwhile", [False, True], ids=["", "killed meanwhile"])
def test_a_transaction_that_lasts_too_long_is_aborted_and_its_producer_fenced(
    broker: Ottla, is_killed_meanwhile: bool
) -> None:
    where = broker.bootstrap
    writer = producer(where, NAME, SHORT_MS)
    writer.begin_transaction()
    write(writer, {0: b"late", 1: b"late"})
    commit_offset(writer, 7, where)
    epoch = described(where, NAME).producer_epoch
    if is_killed_meanwhile:
        broker.kill()
        broker.start()
    found = wait_for_state(where, NAME, "CompleteAbort")
    assert found.producer_epoch == epoch + 1
    wait_until_all_has_ended(where)
    with pytest.raises(confluent_kafka.KafkaException) as raised:
        writer.commit_transaction(PATIENCE_S)
    error = raised.value.args[0]
    assert (error.code(), error.fatal()) == (FENCED, True)
    write_once(where, b"in time")
    assert read_committed(where, TOPIC, PARTITIONS) == {0: [], 1: [b"in time"], 2: []}
    assert committed_offset(where, stable=True) == -1


def write_once(where: str, value: bytes) -> None:
    """Write a record with the next producer of the transactional id."""
    next_one = producer(where, NAME)
    next_one.begin_transaction()
    write(next_one, {1: value})
    next_one.commit_transaction(PATIENCE_S)
    wait_until_all_has_ended(where)


def test_a_later_record_of_the_fenced_producer_is_refused(broker: Ottla) -> None:
    where = broker.bootstrap
    writer = producer(where, NAME, SHORT_MS)
    writer.begin_transaction()
    write(writer, {0: b"late"})
    wait_for_state(where, NAME, "CompleteAbort")
    writer.produce(TOPIC, b"later", partition=0)
    # It waits for the record first.
    with pytest.raises(confluent_kafka.KafkaException) as raised:
        writer.commit_transaction(PATIENCE_S)
    error = raised.value.args[0]
    assert (error.code(), error.fatal()) == (FENCED, True)
    assert "ProduceRequest" in error.str()
    write_once(where, b"in time")
    assert read_committed(where, TOPIC, PARTITIONS) == {0: [], 1: [b"in time"], 2: []}


# Restarts with these settings, and so nothing expires before the test wants it.
SOON_EXPIRED = ["transactional.id.expiration.ms=1", "transaction.remove.expired.transaction.cleanup.interval.ms=50"]


def test_an_unused_transactional_id_is_deleted_and_an_open_transaction_is_not(tmp_path: Path) -> None:
    broker = Ottla(tmp_path, FEW_PARTITIONS)
    where = broker.bootstrap
    broker.start()
    try:
        create_topic(where, TOPIC, len(PARTITIONS))
        unused, used, opened = (producer(where, name) for name in ("unused", "used", "open"))
        for each in (used, opened):
            each.begin_transaction()
            write(each, {0: b"first"})
        used.commit_transaction(PATIENCE_S)
        wait_for_state(where, "used", "CompleteCommit")
        before = described(where, "used")

        broker.stop()
        broker.overrides = [*FEW_PARTITIONS, *SOON_EXPIRED]
        broker.start()
        wait_for(lambda: states(where), lambda them: them == {"open": "Ongoing"})
        assert described(where, "used").error_code == ErrorCode.TRANSACTIONAL_ID_NOT_FOUND
        for each in (unused, used):
            each.begin_transaction()
            each.produce(TOPIC, b"second", partition=1)
            with pytest.raises(confluent_kafka.KafkaException) as raised:
                each.commit_transaction(PATIENCE_S)
            assert raised.value.args[0].code() == ErrorCode.INVALID_PRODUCER_ID_MAPPING
        write(opened, {2: b"second"})
        opened.commit_transaction(PATIENCE_S)
        wait_for(lambda: states(where), lambda them: not them)

        broker.kill()
        broker.overrides = FEW_PARTITIONS
        broker.start()
        assert wait_for(lambda: [states(where)]) == [{}]
        producer(where, "used")
        assert described(where, "used").producer_id > before.producer_id
        assert read_committed(where, TOPIC, PARTITIONS) == {0: [b"first", b"first"], 1: [], 2: [b"second"]}
    finally:
        broker.stop()
