from ottla.wire.messages.leader_and_isr import LeaderAndIsrRequest
from ottla.wire.messages.update_metadata import UpdateMetadataRequest
from ottla.wire.types import TopicPartition
from ottla.zk.znodes import LEADER_DURING_DELETE, ReplicaAssignment
from tests.broker.controller.contexts import TOPIC_ID, P, context_of, lead, new_batch


def test_a_leader_and_isr_request_has_the_whole_state_of_a_partition() -> None:
    context, batch = context_of((1, 2), (1, 2, 3)), new_batch()
    context.assignments["t"][0] = ReplicaAssignment((1, 2, 3), adding=(3,), removing=(2,))
    lead(context, P, 1, 1, 2, leader_epoch=5)
    batch.add_leader_and_isr(context, [1], P, is_new=True)
    broker_id, request = batch.requests(context)[0]
    assert isinstance(request, LeaderAndIsrRequest)
    assert (broker_id, request.controller_epoch, request.broker_epoch) == (1, 7, 101)
    (topic,) = request.topic_states
    assert (topic.topic_name, topic.topic_id) == ("t", TOPIC_ID)
    (state,) = topic.partition_states
    assert (state.leader, state.leader_epoch, state.partition_epoch, state.controller_epoch) == (1, 5, 5, 2)
    assert (state.isr, state.replicas) == ((1, 2), (1, 2, 3))
    assert (state.adding_replicas, state.removing_replicas, state.is_new) == ((3,), (2,), True)
    (leader,) = request.live_leaders
    assert (leader.broker_id, leader.host_name, leader.port) == (1, "host1", 9092)


def test_partitions_of_one_topic_are_grouped_and_in_order() -> None:
    context, batch = context_of((1,), *[(1,)] * 12), new_batch()
    for partition in reversed(context.partitions_of("t")):
        lead(context, partition, 1, 1)
        batch.add_leader_and_isr(context, [1], partition, is_new=False)
    _, request = batch.requests(context)[0]
    assert isinstance(request, LeaderAndIsrRequest)
    (topic,) = request.topic_states
    assert [state.partition_index for state in topic.partition_states] == list(range(12))


def test_all_brokers_get_the_leader_and_all_live_brokers() -> None:
    context, batch = context_of((1, 2, 3), (1, 9)), new_batch()
    lead(context, P, 1, 1)
    batch.add_leader_and_isr(context, [1], P, is_new=False)
    updates = [
        (each, request) for each, request in batch.requests(context) if isinstance(request, UpdateMetadataRequest)
    ]
    assert [broker_id for broker_id, _ in updates] == [1, 2, 3]
    for broker_id, request in updates:
        assert request.broker_epoch == 100 + broker_id
        assert [broker.id for broker in request.live_brokers] == [1, 2, 3]
        (state,) = request.topic_states[0].partition_states
        assert (state.leader, state.replicas, state.offline_replicas) == (1, (1, 9), [9])


def test_a_topic_marked_for_deletion_has_the_leader_during_delete() -> None:
    context, batch = context_of((1,), (1,)), new_batch()
    lead(context, P, 1, 1)
    context.topics_to_delete.add("t")
    batch.add_update_metadata([1], [P])
    ((_, request),) = batch.requests(context)
    assert isinstance(request, UpdateMetadataRequest)
    state = request.topic_states[0].partition_states[0]
    assert (state.leader, state.leader_epoch, state.zk_version) == (LEADER_DURING_DELETE, 0, 0)


def test_offline_brokers_get_no_request() -> None:
    context, batch = context_of((1,), (1, 2)), new_batch()
    lead(context, P, 1, 1, 2)
    batch.add_leader_and_isr(context, [1, 2], P, is_new=False)
    batch.add_stop_replica(2, P, delete=True)
    assert {broker_id for broker_id, _ in batch.requests(context)} == {1}


def test_requests_have_the_last_state_of_the_context() -> None:
    context, batch = context_of((1, 2), (1, 2)), new_batch()
    lead(context, P, 1, 1, 2, leader_epoch=5)
    batch.add_leader_and_isr(context, [1], P, is_new=True)
    lead(context, P, 2, 2, leader_epoch=6)
    batch.add_leader_and_isr(context, [1], P, is_new=False)
    _, request = batch.requests(context)[0]
    assert isinstance(request, LeaderAndIsrRequest)
    (state,) = request.topic_states[0].partition_states
    # It stays new, because the broker does not know it yet.
    assert (state.leader, state.leader_epoch, state.is_new) == (2, 6, True)


def test_a_partition_that_never_had_a_leader_is_not_sent() -> None:
    context, batch = context_of((1,), (1,), (1,)), new_batch()
    lead(context, P, 1, 1)
    batch.add_update_metadata([1], [P, TopicPartition("t", 1)])
    ((_, request),) = batch.requests(context)
    assert isinstance(request, UpdateMetadataRequest)
    assert [state.partition_index for state in request.topic_states[0].partition_states] == [0]
