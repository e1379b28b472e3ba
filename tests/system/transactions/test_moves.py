"""The coordinator of a transaction, or the leader of its partition, goes to another broker in the middle of it."""

from collections.abc import Callable, Iterator

import confluent_kafka
import pytest
from confluent_kafka.admin import AdminClient
from confluent_kafka.cimpl import NewTopic

from compat_tests.support.clients import create_topic
from ottla import Cluster
from ottla.wire.messages.describe_transactions import TransactionState
from tests.system.transactions.asking import (
    PATIENCE_S,
    QUICK,
    coordinator,
    described,
    wait_for,
    wait_for_state,
    wait_until_all_has_ended,
    wait_until_in_sync,
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
IDS = (0, 1, 2)
FEW_PARTITIONS = {"offsets_topic_num_partitions": 3, "transaction_state_log_num_partitions": 1}
FIRST = {0: b"first 0", 1: b"first 1", 2: b"first 2"}
SECOND = {0: b"second 0", 2: b"second 2"}
WRITTEN = {0: [b"first 0", b"second 0"], 1: [b"first 1"], 2: [b"first 2", b"second 2"]}


@pytest.fixture
def cluster() -> Iterator[Cluster]:
    with Cluster(transaction_abort_timed_out_transaction_cleanup_interval_ms=50, **FEW_PARTITIONS) as cluster:
        create_topic(cluster.bootstrap, TOPIC, len(PARTITIONS), replicas=3)
        create_topic(cluster.bootstrap, READ, replicas=3)
        yield cluster


def stop(cluster: Cluster, broker_id: int) -> None:
    cluster.stop(broker_id)


def kill(cluster: Cluster, broker_id: int) -> None:
    cluster.kill(broker_id)


def elect(cluster: Cluster, _: int) -> None:
    """Let preferred replicas lead again."""
    admin = AdminClient({"bootstrap.servers": cluster.bootstrap, **QUICK})
    admin.elect_leaders(confluent_kafka.ElectionType.PREFERRED).result(PATIENCE_S)


@pytest.mark.parametrize("move", [stop, kill, elect])
def test_a_transaction_goes_on_with_another_coordinator(cluster: Cluster, move: Callable[[Cluster, int], None]) -> None:
    where = cluster.bootstrap
    writer = producer(where, NAME)
    if move is elect:
        # Another replica than the preferred one leads.
        preferred = coordinator(where, NAME).broker_id
        cluster.stop(preferred)
        cluster.start(preferred)
        wait_until_in_sync(where)
    writer.begin_transaction()
    write(writer, FIRST)
    commit_offset(writer, 7, where)
    before = described(where, NAME)
    old = coordinator(where, NAME).broker_id
    move(cluster, old)
    wait_for(lambda: coordinator(where, NAME).broker_id, lambda found: found != old)
    assert wait_for_state(where, NAME, "Ongoing") == before
    write(writer, SECOND)
    writer.commit_transaction(PATIENCE_S)
    if move is not elect:
        cluster.start(old)
    wait_until_all_has_ended(where)
    assert read_committed(where, TOPIC, PARTITIONS) == WRITTEN
    assert wait_for(lambda: committed_offset(where, stable=True)) == 7


def test_a_coordinator_that_is_cut_off_decides_nothing(cluster: Cluster) -> None:
    where = cluster.bootstrap
    # It soon gives up a coordinator that does not answer.
    writer = producer(where, NAME, **{"socket.timeout.ms": 2000})
    writer.begin_transaction()
    write(writer, FIRST)
    commit_offset(writer, 7, where)
    before = described(where, NAME)
    old = coordinator(where, NAME)
    others = ",".join(each for each in where.split(",") if each != old.bootstrap)
    cluster.partition(old.broker_id)
    wait_for(lambda: coordinator(others, NAME).broker_id, lambda found: found != old.broker_id)
    assert wait_for_state(others, NAME, "Ongoing") == before
    # Clients still reach it.
    assert coordinator(old.bootstrap, NAME) == old
    writer.commit_transaction(PATIENCE_S)
    wait_for_state(others, NAME, "PrepareCommit", "CompleteCommit")
    cluster.heal(old.broker_id)
    wait_until_in_sync(where)
    wait_until_all_has_ended(where)
    assert read_committed(where, TOPIC, PARTITIONS) == {each: [value] for each, value in FIRST.items()}
    assert wait_for(lambda: committed_offset(where, stable=True)) == 7


def test_a_transaction_lasts_too_long_for_its_next_coordinator(cluster: Cluster) -> None:
    where = cluster.bootstrap
    writer = producer(where, NAME, timeout_ms=2000)
    writer.begin_transaction()
    write(writer, FIRST)
    old = coordinator(where, NAME).broker_id
    cluster.kill(old)
    wait_for_state(where, NAME, "CompleteAbort")
    cluster.start(old)
    wait_until_all_has_ended(where)
    assert read_committed(where, TOPIC, PARTITIONS) == {0: [], 1: [], 2: []}


@pytest.mark.parametrize("restarts", [False, True], ids=["", "all others restart"])
def test_a_decided_transaction_waits_for_the_leader_of_its_partition_whoever_coordinates_it(
    cluster: Cluster, restarts: bool
) -> None:
    where = cluster.bootstrap
    writer = producer(where, NAME)
    first = coordinator(where, NAME).broker_id
    away = next(each for each in IDS if each != first)
    create_on(where, "away", away)
    writer.begin_transaction()
    write(writer, FIRST)
    writer.produce("away", b"first", partition=0)
    assert writer.flush(PATIENCE_S) == 0
    cluster.kill(away)
    writer.commit_transaction(PATIENCE_S)
    wait_for(lambda: described(where, NAME), lambda it: has_decided_for(it, "away"))

    cluster.kill(first)
    if restarts:
        # The last broker has no metadata from before, and is the controller.
        (last,) = {*IDS} - {first, away}
        cluster.kill(last)
        cluster.start(last)
    wait_for(lambda: coordinator(where, NAME).broker_id, lambda found: found != first)
    # It sends the other markers once more.
    wait_for(lambda: described(where, NAME), lambda it: has_decided_for(it, "away"))
    assert read_committed(where, TOPIC, PARTITIONS) == {each: [value] for each, value in FIRST.items()}
    cluster.start(away)
    wait_for_state(where, NAME, "CompleteCommit")
    cluster.start(first)
    wait_until_all_has_ended(where)
    assert read_committed(where, TOPIC, PARTITIONS) == {each: [value] for each, value in FIRST.items()}
    assert read_committed(where, "away", [0]) == {0: [b"first"]}


def create_on(bootstrap: str, topic: str, broker_id: int) -> None:
    """Create a topic with one replica, on this broker."""
    admin = AdminClient({"bootstrap.servers": bootstrap, **QUICK})
    wanted = NewTopic(topic, num_partitions=1, replica_assignment=[[broker_id]])
    admin.create_topics([wanted], operation_timeout=10)[topic].result(PATIENCE_S)


def has_decided_for(found: TransactionState, topic: str) -> bool:
    """Return whether a transaction is decided, and only partition 0 of a topic lacks its marker."""
    unmarked = [(each.topic, [*each.partitions]) for each in found.topics]
    return found.transaction_state == "PrepareCommit" and unmarked == [(topic, [0])]
