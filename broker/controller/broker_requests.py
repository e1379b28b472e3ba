"""The requests of brokers to the active controller: AlterPartition, ControlledShutdown, AllocateProducerIds.

Owns the order of deciding, writing and sending for each, and their refusals. Must not know how requests arrive.
Counterparts in Kafka: KafkaController's processAlterPartition, doControlledShutdown and processAllocateProducerIds.
"""

import logging

from ottla.broker.cluster.producer_ids import claim_block
from ottla.broker.controller import isr_updates
from ottla.broker.controller.actions import Steps
from ottla.broker.controller.client_requests import PendingRequest
from ottla.broker.controller.context import Replica
from ottla.broker.controller.leader_choice import before_shutdown
from ottla.broker.controller.state_machines import replicas_offline
from ottla.wire.errors import ErrorCode, KafkaError
from ottla.wire.messages.allocate_producer_ids import AllocateProducerIdsRequest, AllocateProducerIdsResponse
from ottla.wire.messages.alter_partition import AlterPartitionRequest, AlterPartitionResponse
from ottla.wire.messages.controlled_shutdown import (
    ControlledShutdownRequest,
    ControlledShutdownResponse,
    RemainingPartition,
)
from ottla.wire.types import NO_EPOCH, TopicPartition
from ottla.zk.store import StoreError

logger = logging.getLogger("kafka.controller.KafkaController")

BrokersRequest = AlterPartitionRequest | ControlledShutdownRequest | AllocateProducerIdsRequest
BrokersResponse = AlterPartitionResponse | ControlledShutdownResponse | AllocateProducerIdsResponse


class PendingBrokerRequest(PendingRequest[BrokersResponse]):
    """A broker's request and its reply."""

    def __init__(self, request: BrokersRequest, version: int) -> None:
        super().__init__()
        self.request = request
        self.version = version
        self.response: BrokersResponse | None = None

    def end(self, failure: KafkaError) -> None:
        """Complete the reply."""
        if self.response is None:
            logger.info("%s is refused: %r", type(self.request).__name__, failure)
            self.response = refusal(self.request, failure.code)
        self.reply.complete(self.response)


async def serve(steps: Steps, request: BrokersRequest, version: int) -> BrokersResponse:
    """Return the response to a broker's request; KafkaError if the request is refused as a whole."""
    match request:
        case AlterPartitionRequest():
            return await _alter_partitions(steps, request, version)
        case ControlledShutdownRequest():
            return await _shut_down(steps, request)
        case AllocateProducerIdsRequest():
            return await _allocate_producer_ids(steps, request)


def refusal(request: BrokersRequest, code: ErrorCode) -> BrokersResponse:
    """Return the response to a request that is refused as a whole."""
    match request:
        case AlterPartitionRequest():
            return AlterPartitionResponse(error_code=code, topics=())
        case ControlledShutdownRequest():
            # This request has an error code of its own.
            own = ErrorCode.STALE_CONTROLLER_EPOCH if code is ErrorCode.NOT_CONTROLLER else code
            return ControlledShutdownResponse(error_code=own, remaining_partitions=())
        case AllocateProducerIdsRequest():
            return AllocateProducerIdsResponse(error_code=code, producer_id_start=0, producer_id_len=0)


async def _alter_partitions(steps: Steps, request: AlterPartitionRequest, version: int) -> AlterPartitionResponse:
    context = steps.context
    broker = context.brokers.get(request.broker_id)
    if broker is None or broker.epoch != request.broker_epoch:
        raise KafkaError(ErrorCode.STALE_BROKER_EPOCH, f"broker {request.broker_id}, epoch {request.broker_epoch}")
    updates = isr_updates.updates(context, request, version)
    outcomes: dict[TopicPartition, isr_updates.Outcome] = {key: each.outcome for key, each in updates.items()}
    written, conflicts = await steps.store.write_states([each.write for each in updates.values() if each.write])
    for write in written:
        context.leadership[write.partition] = outcomes[write.partition] = write.state
    for write in conflicts:
        outcomes[write.partition] = ErrorCode.INVALID_UPDATE_VERSION
    if outcomes:
        steps.send_metadata(context.brokers, outcomes)
    return isr_updates.response(context, request, version, outcomes)


async def _shut_down(steps: Steps, request: ControlledShutdownRequest) -> ControlledShutdownResponse:
    """Move leadership to other brokers, and remove the broker from the ISR of partitions that it follows."""
    context, broker_id = steps.context, request.broker_id
    broker = context.brokers.get(broker_id)
    if broker is None:
        raise KafkaError(ErrorCode.BROKER_NOT_AVAILABLE, f"Broker id {broker_id} does not exist.")
    # Brokers before Kafka 2.2 send no epoch.
    if request.broker_epoch != NO_EPOCH and request.broker_epoch < broker.epoch:
        raise KafkaError(ErrorCode.STALE_BROKER_EPOCH, f"broker {broker_id}, epoch {request.broker_epoch}")
    logger.info("Shutting down broker %d", broker_id)
    context.shutting_down.add(broker_id)
    movable = [each.partition for each in context.replicas_on([broker_id]) if _may_move(steps, each.partition)]
    led = [each for each in movable if context.leadership[each].leader == broker_id]
    followed = [each for each in movable if context.leadership[each].leader != broker_id]
    batch = steps.batch()
    await steps.elect(batch, led, before_shutdown)
    # The broker stops fetching before it leaves the ISR, because otherwise it would join again.
    for partition in followed:
        batch.add_stop_replica(broker_id, partition, delete=False)
    steps.send(batch)
    batch = steps.batch()
    await steps.shrink_isr(
        batch, replicas_offline(context, batch, [Replica(partition, broker_id) for partition in followed])
    )
    steps.send(batch)
    remaining = [each for each in led if context.leadership[each].leader == broker_id]
    return ControlledShutdownResponse(
        error_code=ErrorCode.NONE,
        remaining_partitions=[
            RemainingPartition(topic_name=each.topic, partition_index=each.partition) for each in remaining
        ],
    )


def _may_move(steps: Steps, partition: TopicPartition) -> bool:
    """Whether a partition may have another replica, and is not being deleted."""
    context = steps.context
    return (
        len(context.assignment(partition).replicas) > 1
        and partition in context.leadership
        and partition.topic not in context.topics_to_delete
    )


async def _allocate_producer_ids(steps: Steps, request: AllocateProducerIdsRequest) -> AllocateProducerIdsResponse:
    broker = steps.context.brokers.get(request.broker_id)
    if broker is None:
        raise KafkaError(ErrorCode.BROKER_ID_NOT_REGISTERED, f"broker {request.broker_id}")
    if broker.epoch != request.broker_epoch:
        raise KafkaError(ErrorCode.STALE_BROKER_EPOCH, f"broker {request.broker_id}, epoch {request.broker_epoch}")
    try:
        block = await claim_block(steps.store.session, request.broker_id)
    except StoreError as error:
        raise KafkaError(ErrorCode.UNKNOWN_SERVER_ERROR, str(error)) from error
    return AllocateProducerIdsResponse(
        error_code=ErrorCode.NONE, producer_id_start=block.start, producer_id_len=len(block)
    )
