from functools import partial

import pytest

from ottla.broker.controller.context import PartitionPhase, Replica, ReplicaPhase
from ottla.broker.controller.leader_choice import after_failure
from ottla.broker.controller.state_machines import (
    PARTITION_MOVES,
    REPLICA_MOVES,
    begin_partitions,
    begin_replicas,
    deletion_started,
    elect,
    isr_shrunk,
    leaders_written,
    move_partitions,
    move_replicas,
    new_leaders,
    replicas_new,
    replicas_offline,
    replicas_online,
    shrink_isr,
)
from ottla.wire.messages.leader_and_isr import LeaderAndIsrRequest
from ottla.wire.messages.stop_replica import StopReplicaRequest
from ottla.wire.messages.update_metadata import UpdateMetadataRequest
from ottla.wire.types import TopicPartition
from ottla.zk.znodes import PartitionState
from tests.broker.controller.contexts import P, context_of, lead, new_batch


@pytest.mark.parametrize("phase", PartitionPhase)
@pytest.mark.parametrize("to", [each for each in PartitionPhase if each is not PartitionPhase.ONLINE])
def test_a_partition_moves_only_as_the_table_says(phase: PartitionPhase, to: PartitionPhase) -> None:
    context = context_of((1,), (1,))
    context.partition_phases[P] = phase
    move_partitions(context, [P], to)
    assert context.partition_phases[P] is (to if phase in PARTITION_MOVES[to] else phase)


@pytest.mark.parametrize("phase", ReplicaPhase)
@pytest.mark.parametrize("to", ReplicaPhase)
def test_a_replica_moves_only_as_the_table_says(phase: ReplicaPhase, to: ReplicaPhase) -> None:
    context = context_of((1,), (1,))
    replica = Replica(P, 1)
    context.replica_phases[replica] = phase
    move_replicas(context, [replica], to)
    assert context.replica_phases[replica] is (to if phase in REPLICA_MOVES[to] else phase)


def test_the_tables_name_every_phase() -> None:
    assert set(PARTITION_MOVES) == set(PartitionPhase)
    assert set(REPLICA_MOVES) == set(ReplicaPhase)


def test_phases_after_an_election_follow_from_the_leaders() -> None:
    context = context_of((1,), (1,), (2,), (1,))
    lead(context, TopicPartition("t", 0), 1, 1)
    lead(context, TopicPartition("t", 1), 2, 2)
    online, offline = begin_replicas(context)
    begin_partitions(context)
    assert [context.partition_phases[each] for each in context.partitions_of("t")] == [
        PartitionPhase.ONLINE,
        PartitionPhase.OFFLINE,
        PartitionPhase.NEW,
    ]
    assert [replica.broker_id for replica in online] == [1, 1]
    assert offline == [Replica(TopicPartition("t", 1), 2)]
    assert context.replica_phases[offline[0]] is ReplicaPhase.DELETION_INELIGIBLE


def test_a_new_partition_is_online_when_its_leader_is_written() -> None:
    context, batch = context_of((1, 2), (1, 2)), new_batch()
    (write,) = new_leaders(context, [P])
    assert context.partition_phases[P] is PartitionPhase.NEW
    assert (write.is_new, write.recipients, write.state.leader) == (True, (1, 2), 1)
    leaders_written(context, batch, [write])
    assert context.partition_phases[P] is PartitionPhase.ONLINE
    told = [(broker_id, type(request)) for broker_id, request in batch.requests(context)]
    assert told == [
        (1, LeaderAndIsrRequest),
        (2, LeaderAndIsrRequest),
        (1, UpdateMetadataRequest),
        (2, UpdateMetadataRequest),
    ]


def test_a_new_partition_without_a_live_replica_stays_new() -> None:
    context = context_of((3,), (1, 2))
    assert new_leaders(context, [P]) == []
    assert context.partition_phases[P] is PartitionPhase.NEW


def test_an_election_uses_the_state_in_the_store() -> None:
    context = context_of((2, 3), (1, 2, 3))
    lead(context, P, 1, 1, 2, 3)
    context.partition_phases[P] = PartitionPhase.OFFLINE
    found = PartitionState(1, 9, (1, 3), 2, version=12)
    (write,) = elect(context, [P], {P: found}, partial(after_failure, allow_unclean=False))
    assert (write.state.leader, write.state.leader_epoch, write.state.version) == (3, 10, 12)


def test_an_election_does_not_replace_the_state_of_a_later_controller() -> None:
    context = context_of((1, 2), (1, 2))
    lead(context, P, 1, 1, 2)
    found = PartitionState(1, 9, (1, 2), context.epoch + 1)
    assert elect(context, [P], {P: found}, lambda context, partition, state: state) == []


def test_an_election_without_a_state_or_a_candidate_writes_nothing() -> None:
    context = context_of((1, 2), (1, 2))
    state = lead(context, P, 1, 1, 2)
    assert elect(context, [P], {}, lambda context, partition, state: state) == []
    assert elect(context, [P], {P: state}, lambda context, partition, state: None) == []


def test_a_new_replica_of_a_partition_with_a_leader_is_a_follower() -> None:
    context, batch = context_of((1, 2), (1, 2)), new_batch()
    lead(context, P, 1, 1)
    context.replica_phases[Replica(P, 2)] = ReplicaPhase.NON_EXISTENT
    replicas_new(context, batch, [Replica(P, 2)])
    broker_id, request = batch.requests(context)[0]
    assert isinstance(request, LeaderAndIsrRequest)
    assert (broker_id, request.topic_states[0].partition_states[0].is_new) == (2, True)


def test_a_replica_that_comes_online_gets_its_leader_unless_it_is_new() -> None:
    context, batch = context_of((1, 2), (1, 2)), new_batch()
    lead(context, P, 1, 1)
    context.replica_phases[Replica(P, 2)] = ReplicaPhase.NEW
    replicas_online(context, batch, [Replica(P, 1), Replica(P, 2)])
    leaders = [each for each, request in batch.requests(context) if isinstance(request, LeaderAndIsrRequest)]
    assert leaders == [1]
    assert context.replica_phases[Replica(P, 2)] is ReplicaPhase.ONLINE


def test_a_replica_that_goes_offline_is_stopped_and_leaves_the_isr() -> None:
    context, batch = context_of((1, 2), (1, 2)), new_batch()
    state = lead(context, P, 1, 1, 2)
    to_shrink = replicas_offline(context, batch, [Replica(P, 2)])
    assert to_shrink == [Replica(P, 2)]
    writes, others = shrink_isr(context, to_shrink, {P: state})
    assert [write.state.isr for write in writes] == [(1,)]
    isr_shrunk(context, batch, writes, others)
    assert context.leadership[P].isr == (1,)
    requests = batch.requests(context)
    told = {(broker_id, type(request)) for broker_id, request in requests}
    assert told == {
        (1, LeaderAndIsrRequest),
        (1, UpdateMetadataRequest),
        (2, UpdateMetadataRequest),
        (2, StopReplicaRequest),
    }
    stop = requests[-1][1]
    assert isinstance(stop, StopReplicaRequest)
    assert not stop.topic_states[0].partition_states[0].delete_partition


def test_a_replica_outside_the_isr_is_not_removed_from_it() -> None:
    context = context_of((1, 2), (1, 2))
    state = lead(context, P, 1, 1)
    writes, others = shrink_isr(context, [Replica(P, 2)], {P: state})
    assert (writes, others) == ([], [Replica(P, 2)])


def test_a_topic_marked_for_deletion_keeps_its_isr() -> None:
    context, batch = context_of((1, 2), (1, 2)), new_batch()
    lead(context, P, 1, 1, 2)
    context.topics_to_delete.add("t")
    assert replicas_offline(context, batch, [Replica(P, 1), Replica(P, 2)]) == []


def test_a_deleted_replica_gets_an_epoch_that_overrides_all() -> None:
    context, batch = context_of((1,), (1,)), new_batch()
    lead(context, P, 1, 1)
    context.topics_to_delete.add("t")
    replicas_offline(context, batch, [Replica(P, 1)])
    deletion_started(context, batch, [Replica(P, 1)])
    _, request = batch.requests(context)[-1]
    assert isinstance(request, StopReplicaRequest)
    state = request.topic_states[0].partition_states[0]
    assert (state.leader_epoch, state.delete_partition) == (-2, True)
