"""Transactions that last too long are aborted, and transactional ids without use are deleted."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
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
# The time between two looks for transactions that last too long.
INTERVAL = "transaction.abort.timed.out.transaction.cleanup.interval.ms"
OFTEN, NEVER = f"{INTERVAL}=50", f"{INTERVAL}=3600000"
SOON_EXPIRED = ["transactional.id.expiration.ms=1", "transaction.remove.expired.transaction.cleanup.interval.ms=50"]
FENCED = confluent_kafka.KafkaError._FENCED


@contextmanager
def running(folder: Path, *settings: str) -> Iterator[Ottla]:
    """Run a broker with the topics during a `with` block. Its settings may change from start to start."""
    broker = Ottla(folder, [*FEW_PARTITIONS, *settings])
    broker.start()
    try:
        create_topic(broker.bootstrap, TOPIC, len(PARTITIONS))
        create_topic(broker.bootstrap, READ)
        yield broker
    finally:
        broker.stop()


@pytest.mark.parametrize("end_broker", [Ottla.stop, Ottla.kill], ids=["stop", "kill"])
def test_a_transaction_that_lasts_too_long_is_aborted_even_after_a_restart(
    tmp_path: Path, end_broker: Callable[[Ottla], None]
) -> None:
    with running(tmp_path, NEVER) as broker:
        where = broker.bootstrap
        writer = producer(where, NAME, SHORT_MS)
        writer.begin_transaction()
        write(writer, {0: b"late", 1: b"late"})
        commit_offset(writer, 7, where)
        epoch = described(where, NAME).producer_epoch
        end_broker(broker)
        broker.overrides = [*FEW_PARTITIONS, OFTEN]
        broker.start()
        assert wait_for_state(where, NAME, "CompleteAbort").producer_epoch == epoch + 1
        wait_until_all_has_ended(where)
        assert_fenced(writer)
        write_once(where, b"in time")
        assert read_committed(where, TOPIC, PARTITIONS) == {0: [], 1: [b"in time"], 2: []}
        assert committed_offset(where, stable=True) == -1


def assert_fenced(writer: confluent_kafka.Producer, by: str = "") -> None:
    """Check that the producer cannot commit any more, because of this request."""
    with pytest.raises(confluent_kafka.KafkaException) as raised:
        writer.commit_transaction(PATIENCE_S)
    error = raised.value.args[0]
    assert (error.code(), error.fatal()) == (FENCED, True)
    assert by in error.str()


def write_once(where: str, value: bytes) -> None:
    """Write a record with the next producer of the transactional id."""
    next_one = producer(where, NAME)
    next_one.begin_transaction()
    write(next_one, {1: value})
    next_one.commit_transaction(PATIENCE_S)
    wait_until_all_has_ended(where)


def test_a_later_record_of_the_fenced_producer_is_refused(tmp_path: Path) -> None:
    with running(tmp_path, OFTEN) as broker:
        where = broker.bootstrap
        writer = producer(where, NAME, SHORT_MS)
        writer.begin_transaction()
        write(writer, {0: b"late"})
        wait_for_state(where, NAME, "CompleteAbort")
        writer.produce(TOPIC, b"later", partition=0)
        # Before it commits, it waits for the record.
        assert_fenced(writer, by="ProduceRequest")
        write_once(where, b"in time")
        assert read_committed(where, TOPIC, PARTITIONS) == {0: [], 1: [b"in time"], 2: []}


def test_an_unused_transactional_id_is_deleted_and_an_open_transaction_is_not(tmp_path: Path) -> None:
    with running(tmp_path) as broker:
        where = broker.bootstrap
        unused, used, opened = (producer(where, name) for name in ("unused", "used", "open"))
        for each in (used, opened):
            each.begin_transaction()
            write(each, {0: b"first"})
        used.commit_transaction(PATIENCE_S)
        before = wait_for_state(where, "used", "CompleteCommit")

        # Only now, because nothing expires before the test wants it.
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
