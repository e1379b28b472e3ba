"""Notifies the controller that this broker has offline replicas, because their disk failed.

Owns the notification, one for all replicas that failed before it is written. Must not know partitions: the controller
asks for them with LeaderAndIsr. Counterpart in Kafka: KafkaZkClient.propagateLogDirEvent.
"""

import logging
from typing import Final

import trio

from ottla.zk.store import Session, StoreError
from ottla.zk.znodes import LOG_DIR_EVENT_NOTIFICATION, LOG_DIR_EVENT_PREFIX, encode_log_dir_event

logger = logging.getLogger("kafka.server.ReplicaManager")

_RETRY_AFTER_SECONDS: Final = 1.0


class OfflineNotice:
    """The notification, written to the store."""

    def __init__(self, session: Session, broker_id: int) -> None:
        self._session = session
        self._data = encode_log_dir_event(broker_id)
        self._is_due = trio.Event()

    def replica_failed(self) -> None:
        """Request a notification, because a replica went offline."""
        self._is_due.set()

    async def run(self) -> None:
        """Write requested notifications until cancelled."""
        while True:
            await self._is_due.wait()
            self._is_due = trio.Event()
            try:
                path = f"{LOG_DIR_EVENT_NOTIFICATION}/{LOG_DIR_EVENT_PREFIX}"
                await self._session.create(path, self._data, sequential=True)
            except StoreError as error:
                logger.warning("The controller could not be notified of offline replicas, trying again: %s", error)
                await trio.sleep(_RETRY_AFTER_SECONDS)
                self._is_due.set()
