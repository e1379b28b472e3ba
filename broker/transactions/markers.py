"""The markers of ended transactions, on their way to the leaders of their partitions.

Owns the marks that each broker has yet to make, and what follows from its answers. Must not know the states of a
transaction: the coordinator asks for marks, and is called for each partition that needs no mark any more.

Each broker gets one request at a time; the marks that gather meanwhile go into the next one. A mark that fails for now,
or whose partition has no leader, is tried again every `_RETRY_SECONDS`, as long as this broker coordinates the
transaction. A partition needs no mark if it was deleted. It needs none either if its leader refuses the mark for good,
because it knows a newer epoch of the producer or of the coordinator. In that case Kafka keeps the transaction in
Prepare* until its coordinator moves; here the transaction ends, and a line says what was refused.
Counterpart in Kafka: TransactionMarkerChannelManager.
"""

import logging
from collections.abc import Callable, Iterable, Sequence
from itertools import islice
from typing import Final

import trio

from ottla.broker.cluster.metadata_cache import MetadataCache
from ottla.broker.cluster.topic_names import TRANSACTION_STATE_TOPIC
from ottla.broker.loop.clock import Clock, StartSoon
from ottla.broker.replicas.partition import NO_LEADER, Partition
from ottla.broker.transactions.brokers import Ask
from ottla.coordinator.effects import Marker
from ottla.wire.errors import ErrorCode, error_name
from ottla.wire.messages.write_txn_markers import (
    WritableTxnMarker,
    WritableTxnMarkerTopic,
    WriteTxnMarkersRequest,
    WriteTxnMarkersResponse,
)
from ottla.wire.types import TopicPartition

logger = logging.getLogger("kafka.coordinator.transaction.TransactionMarkerChannelManager")

Marked = Callable[[TopicPartition], None]

_RETRY_SECONDS: Final = 0.1
# The broker that gets them appends them all in one go: some milliseconds of its loop.
_MOST_IN_A_REQUEST: Final = 200
_REFUSED_FOR_GOOD: Final = (ErrorCode.INVALID_PRODUCER_EPOCH, ErrorCode.TRANSACTION_COORDINATOR_FENCED)


class _Ended:
    """An ended transaction; `coordinator` is its partition of __transaction_state, `epoch` the leader epoch there."""

    __slots__ = ("coordinator", "epoch", "marked", "marker")

    def __init__(self, coordinator: int, epoch: int, marker: Marker, marked: Marked) -> None:
        self.coordinator = coordinator
        self.epoch = epoch
        self.marker = marker
        self.marked = marked


class _Mark:
    """One partition that needs the marker of a transaction."""

    __slots__ = ("of", "partition")

    def __init__(self, of: _Ended, partition: TopicPartition) -> None:
        self.of = of
        self.partition = partition


class MarkerSender:
    """Sends markers to the leaders of partitions, until each partition is marked."""

    def __init__(self, ask: Ask, metadata: MetadataCache, clock: Clock, start_soon: StartSoon) -> None:
        self._ask = ask
        self._metadata = metadata
        self._clock = clock
        self._start_soon = start_soon
        # The marks that are wanted, by partition of __transaction_state. A mark that is not among them is given up.
        self._wanted: dict[int, set[_Mark]] = {}
        # The marks that wait for a broker, in order. The broker has a task as long as it has an entry here.
        self._queues: dict[int, dict[_Mark, None]] = {}
        self._later: list[_Mark] = []

    def send(self, partition: int, leader_epoch: int, marker: Marker, marked: Marked) -> None:
        """Send a marker to all its partitions; call `marked` for each partition that needs it no more.

        `partition` is the one of __transaction_state whose leader coordinates the transaction.
        """
        ended = _Ended(partition, leader_epoch, marker, marked)
        marks = [_Mark(ended, each) for each in marker.partitions]
        self._wanted.setdefault(partition, set()).update(marks)
        self._place(marks)

    def unload(self, partition: Partition) -> None:
        """Forget the marks of a partition of __transaction_state that this broker does not lead any more."""
        topic, index = partition.topic_partition
        if topic == TRANSACTION_STATE_TOPIC:
            self._wanted.pop(index, None)

    def _place(self, marks: Iterable[_Mark]) -> None:
        for mark in marks:
            if not self._is_wanted(mark):
                continue
            known = self._metadata.partition(*mark.partition)
            if known is None and self._has_metadata(mark.of.coordinator):
                logger.info("%s is gone, and needs no marker of %s", mark.partition, mark.of.marker.transactional_id)
                self._end(mark)
            elif known is None or known.leader == NO_LEADER:
                self._try_later([mark])
            elif known.leader in self._queues:
                self._queues[known.leader][mark] = None
            else:
                self._queues[known.leader] = {mark: None}
                self._start_soon(self._work, known.leader)

    def _has_metadata(self, coordinator: int) -> bool:
        """Whether the controller has sent the partitions of all topics.

        After the start of a broker they come behind its roles, in one request: those of __transaction_state with them.
        """
        return self._metadata.partition(TRANSACTION_STATE_TOPIC, coordinator) is not None

    def _is_wanted(self, mark: _Mark) -> bool:
        return mark in self._wanted.get(mark.of.coordinator, ())

    def _end(self, mark: _Mark) -> None:
        if self._is_wanted(mark):
            self._wanted[mark.of.coordinator].discard(mark)
            mark.of.marked(mark.partition)

    def _try_later(self, marks: Iterable[_Mark]) -> None:
        if not self._later:
            self._clock.call_later(_RETRY_SECONDS, self._try_again)
        self._later += marks

    def _try_again(self) -> None:
        later, self._later = self._later, []
        self._place(later)

    async def _work(self, broker_id: int) -> None:
        """Send one request after the other, until no mark waits for this broker."""
        queue = self._queues[broker_id]
        # The marks of this turn gather first.
        await trio.lowlevel.checkpoint()
        while queue:
            marks = list(islice(queue, _MOST_IN_A_REQUEST))
            for mark in marks:
                del queue[mark]
            try:
                await self._send([each for each in marks if self._is_wanted(each)], broker_id)
            except OSError as error:
                logger.debug("Broker %d did not answer WriteTxnMarkers: %s", broker_id, error)
                self._try_later(marks)
            except Exception:
                logger.exception("A bug: sending markers to broker %d failed. They are sent again", broker_id)
                self._try_later(marks)
        del self._queues[broker_id]

    async def _send(self, marks: Sequence[_Mark], broker_id: int) -> None:
        if not marks:
            return
        partitions: dict[_Ended, list[TopicPartition]] = {}
        for mark in marks:
            partitions.setdefault(mark.of, []).append(mark.partition)
        request = WriteTxnMarkersRequest(markers=[_writable(*each) for each in partitions.items()])
        response = await self._ask(broker_id, request)
        assert isinstance(response, WriteTxnMarkersResponse)
        codes = {
            (result.producer_id, topic.name, each.partition_index): each.error_code
            for result in response.markers
            for topic in result.topics
            for each in topic.partitions
        }
        for mark in marks:
            topic, index = mark.partition
            # A broker that leaves a partition out is asked again.
            self._answered(mark, codes.get((mark.of.marker.producer_id, topic, index), ErrorCode.UNKNOWN_SERVER_ERROR))

    def _answered(self, mark: _Mark, code: int) -> None:
        if code in _REFUSED_FOR_GOOD:
            marker = mark.of.marker
            logger.error(
                "The leader of %s refuses the marker of transactional id %s, producer %d, epoch %d, with %s. The "
                "transaction ends without it",
                mark.partition, marker.transactional_id, marker.producer_id, marker.producer_epoch, error_name(code),
            )  # fmt: skip
        if code == ErrorCode.NONE or code in _REFUSED_FOR_GOOD:
            self._end(mark)
        else:
            logger.debug("No marker in %s: %s. It is sent again", mark.partition, error_name(code))
            self._try_later([mark])


def _writable(ended: _Ended, partitions: Sequence[TopicPartition]) -> WritableTxnMarker:
    indexes: dict[str, list[int]] = {}
    for topic, index in partitions:
        indexes.setdefault(topic, []).append(index)
    marker = ended.marker
    return WritableTxnMarker(
        producer_id=marker.producer_id,
        producer_epoch=marker.producer_epoch,
        transaction_result=marker.is_commit,
        topics=[WritableTxnMarkerTopic(name=name, partition_indexes=each) for name, each in indexes.items()],
        coordinator_epoch=ended.epoch,
        transaction_version=marker.transaction_version,
    )
