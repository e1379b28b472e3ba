"""The transactions of a broker: its coordinator with log and loader, its markers on their way, its questions to others.

Owns which of these gets which others. Must not know what they do. Counterpart in Kafka: TransactionCoordinator.apply.
"""

from collections.abc import Callable
from typing import Final

import trio

from ottla.broker.cluster.metadata_cache import MetadataCache
from ottla.broker.cluster.producer_ids import ProducerIds
from ottla.broker.cluster.topic_names import TRANSACTION_STATE_TOPIC
from ottla.broker.config.dynamic import DynamicConfig
from ottla.broker.internal_topics.loader import PartitionLoader
from ottla.broker.internal_topics.topic_log import InternalTopicLog
from ottla.broker.loop.deferred import Deferred
from ottla.broker.replicas.manager import ReplicaManager
from ottla.broker.replicas.parts import ReplicaParts
from ottla.broker.transactions.brokers import Brokers
from ottla.broker.transactions.markers import MarkerSender
from ottla.broker.transactions.verification import Verifier
from ottla.coordinator.transaction_config import VERIFICATION_KEY, read_transaction_config
from ottla.coordinator.transaction_coordinator import TransactionCoordinator
from ottla.wire.records.compression import Compression

# Kafka waits for an append as long as the transaction may last: a minute, if the client does not say otherwise.
_COMMIT_TIMEOUT_MS: Final = 60_000


class Transactions:
    """The parts of transactions, for handlers and for `assembly`, which subscribes the loader and the markers."""

    def __init__(
        self,
        dynamic: DynamicConfig,
        replicas: ReplicaManager,
        parts: ReplicaParts,
        metadata: MetadataCache,
        producer_ids: ProducerIds,
        brokers: Callable[[str, int, int], Brokers],
    ) -> None:
        """`brokers` returns connections for a purpose, with the lowest and highest version of their requests."""
        values = dynamic.static.values
        self.producer_ids = producer_ids
        # Each kind of request has its own connections, and waits for no other.
        self._to_leaders, self._to_coordinators = brokers("markers", 0, 1), brokers("transactions", 4, 5)
        self.markers = MarkerSender(self._to_leaders.ask, metadata, parts.clock, parts.start_soon)
        log = InternalTopicLog(
            replicas,
            parts,
            TRANSACTION_STATE_TOPIC,
            commit_timeout_ms=_COMMIT_TIMEOUT_MS,
            compression=Compression.NONE,
        )
        self.coordinator = TransactionCoordinator(
            log,
            read_transaction_config(values),
            now_ms=parts.clock.now_ms,
            call_later=parts.clock.call_later,
            partition_count=lambda: len(metadata.partitions(TRANSACTION_STATE_TOPIC)) or None,
            send_markers=self.markers.send,
            take_producer_id=self._take_producer_id,
            transaction_version=lambda: 0,
        )
        self.loader = PartitionLoader(
            parts,
            TRANSACTION_STATE_TOPIC,
            self.coordinator.runtime,
            load_buffer_size=values["transaction.state.log.load.buffer.size"],
        )
        self.verifier = Verifier(
            self._to_coordinators.ask,
            metadata,
            parts.start_soon,
            self.coordinator.runtime.partition_for,
            is_enabled=lambda: dynamic.current.values[VERIFICATION_KEY],
        )

    async def run(self) -> None:
        """Abort and expire transactions, and close all connections in the end."""
        async with trio.open_nursery() as nursery:
            for each in (self.coordinator, self._to_leaders, self._to_coordinators):
                nursery.start_soon(each.run)

    def _take_producer_id(self, then: Callable[[int], None]) -> None:
        taken = self.producer_ids.next()
        if isinstance(taken, Deferred):
            taken.then(then)
        else:
            then(taken)
