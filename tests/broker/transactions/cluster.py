"""The metadata of a cluster in memory, and brokers that answer with what a test gives."""

from collections import deque
from collections.abc import Callable, Iterable
from typing import Any

import trio

from ottla.broker.cluster.metadata_cache import MetadataCache
from ottla.wire.messages.update_metadata import (
    UpdateMetadataBroker,
    UpdateMetadataPartitionState,
    UpdateMetadataRequest,
)
from ottla.wire.schema import Request, Response
from ottla.wire.types import TopicPartition

NO_LEADER = -1


def metadata_with(leaders: Iterable[tuple[TopicPartition, int]], brokers: Iterable[int] = (1, 2)) -> MetadataCache:
    """Return the metadata of brokers, and of partitions with their leaders."""
    metadata = MetadataCache()
    metadata.update(update(leaders, brokers))
    return metadata


def update(leaders: Iterable[tuple[TopicPartition, int]], brokers: Iterable[int] = (1, 2)) -> UpdateMetadataRequest:
    """Return the controller's request with these brokers and leaders."""
    return UpdateMetadataRequest(
        controller_id=1,
        controller_epoch=1,
        live_brokers=[UpdateMetadataBroker(id=each, endpoints=()) for each in brokers],
        ungrouped_partition_states=[
            UpdateMetadataPartitionState(
                topic_name=partition.topic,
                partition_index=partition.partition,
                controller_epoch=1,
                leader=leader,
                leader_epoch=0,
                isr=[leader],
                zk_version=0,
                replicas=[leader],
                offline_replicas=(),
            )
            for partition, leader in leaders
        ],
    )


class FakeBrokers:
    """Answers requests with `answer`, one after the other, each when the test allows it."""

    def __init__(self, answer: Callable[[int, Any], Response]) -> None:
        self.answer = answer
        self.asked: list[tuple[int, Any]] = []
        self.is_open = True
        self._waiting: deque[trio.Event] = deque()

    async def ask(self, broker_id: int, request: Request) -> Response:
        """Return the answer, once the gate is open."""
        self.asked.append((broker_id, request))
        if not self.is_open:
            gate = trio.Event()
            self._waiting.append(gate)
            await gate.wait()
        return self.answer(broker_id, request)

    def let_one_pass(self) -> None:
        """Let the longest waiting request get its answer."""
        self._waiting.popleft().set()
