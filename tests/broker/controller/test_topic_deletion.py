from ottla.broker.controller import topic_deletion
from ottla.broker.controller.context import ControllerContext, PartitionPhase, Replica, ReplicaPhase
from ottla.wire.messages.stop_replica import StopReplicaRequest
from ottla.wire.messages.update_metadata import UpdateMetadataRequest
from ottla.wire.types import TopicPartition
from tests.broker.controller.contexts import P, context_of, lead, new_batch, revive


def led_topic(brokers: tuple[int, ...], *replicas: tuple[int, ...]) -> ControllerContext:
    context = context_of(brokers, *replicas)
    for partition in context.partitions_of("t"):
        lead(context, partition, *context.assignment(partition).replicas[:1], *context.assignment(partition).replicas)
    return context


def test_a_deletion_sends_metadata_to_all_brokers_and_then_stops_replicas() -> None:
    context, batch = led_topic((1, 2, 3), (1, 2)), new_batch()
    topic_deletion.begin(context, ["t"])
    assert topic_deletion.resume(context, batch) == []
    told = [(type(request), broker_id) for broker_id, request in batch.requests(context)]
    assert told == [
        (UpdateMetadataRequest, 1),
        (UpdateMetadataRequest, 2),
        (UpdateMetadataRequest, 3),
        (StopReplicaRequest, 1),
        (StopReplicaRequest, 2),
    ]
    assert context.partition_phases[P] is PartitionPhase.NON_EXISTENT
    assert {context.replica_phases[each] for each in context.replicas_of_topic("t")} == {ReplicaPhase.DELETION_STARTED}


def test_a_topic_is_finished_when_every_replica_is_deleted() -> None:
    context = led_topic((1, 2), (1, 2), (2, 1))
    topic_deletion.begin(context, ["t"])
    topic_deletion.resume(context, new_batch())
    partitions = context.partitions_of("t")
    topic_deletion.replicas_deleted(context, 1, partitions)
    assert topic_deletion.resume(context, new_batch()) == []
    topic_deletion.replicas_deleted(context, 2, partitions[:1])
    assert topic_deletion.resume(context, new_batch()) == []
    topic_deletion.replicas_deleted(context, 2, partitions[1:])
    assert topic_deletion.resume(context, new_batch()) == ["t"]


def test_a_running_deletion_is_not_started_again() -> None:
    context = led_topic((1,), (1,))
    topic_deletion.begin(context, ["t"])
    topic_deletion.resume(context, new_batch())
    batch = new_batch()
    topic_deletion.resume(context, batch)
    assert batch.requests(context) == []


def test_the_deletion_of_a_topic_with_an_offline_replica_is_halted() -> None:
    context, batch = led_topic((1,), (1, 2)), new_batch()
    topic_deletion.begin(context, ["t"])
    assert topic_deletion.resume(context, batch) == []
    assert batch.requests(context) == []
    assert context.topics_ineligible_for_deletion == {"t"}


def test_a_failed_deletion_is_halted_until_it_is_resumed() -> None:
    context = led_topic((1, 2), (1, 2))
    topic_deletion.begin(context, ["t"])
    topic_deletion.resume(context, new_batch())
    topic_deletion.replicas_deleted(context, 1, [P])
    topic_deletion.deletion_failed(context, [Replica(P, 2)])
    batch = new_batch()
    assert topic_deletion.resume(context, batch) == []
    assert batch.requests(context) == []
    topic_deletion.resume_topics(context, ["t"])
    topic_deletion.resume(context, batch)
    stops = [broker_id for broker_id, request in batch.requests(context) if isinstance(request, StopReplicaRequest)]
    # The deleted replica is not deleted again.
    assert stops == [2]
    topic_deletion.replicas_deleted(context, 2, [P])
    assert topic_deletion.resume(context, new_batch()) == ["t"]


def test_a_replica_that_goes_offline_halts_the_deletion() -> None:
    context = led_topic((1, 2), (1, 2))
    topic_deletion.begin(context, ["t"])
    del context.brokers[2]
    context.replica_phases[Replica(P, 2)] = ReplicaPhase.OFFLINE
    topic_deletion.resume(context, new_batch())
    assert context.replica_phases[Replica(P, 2)] is ReplicaPhase.DELETION_INELIGIBLE
    assert "t" in context.topics_ineligible_for_deletion
    revive(context, 2)
    topic_deletion.resume_topics(context, ["t"])
    topic_deletion.replicas_deleted(context, 1, [P])
    topic_deletion.resume(context, new_batch())
    topic_deletion.replicas_deleted(context, 2, [P])
    assert topic_deletion.resume(context, new_batch()) == ["t"]


def test_a_topic_without_partitions_is_finished_at_once() -> None:
    context = context_of((1,))
    topic_deletion.begin(context, ["t"])
    assert topic_deletion.resume(context, new_batch()) == ["t"]


def test_responses_about_other_topics_change_nothing() -> None:
    context = led_topic((1,), (1,))
    topic_deletion.replicas_deleted(context, 1, [P, TopicPartition("unknown", 0)])
    topic_deletion.deletion_failed(context, [Replica(P, 1)])
    assert context.replica_phases[Replica(P, 1)] is ReplicaPhase.ONLINE
    assert context.topics_ineligible_for_deletion == set()
