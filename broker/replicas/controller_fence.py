"""Which requests of controllers count: those of the newest controller, for the present registration of this broker.

Owns the epoch of the newest controller that was heard. Must not know what the requests ask for.
Counterparts in Kafka: ReplicaManager.controllerEpoch, KafkaApis.isBrokerEpochStale.
"""

from collections.abc import Callable

from ottla.wire.errors import ErrorCode
from ottla.wire.messages.leader_and_isr import LeaderAndIsrRequest
from ottla.wire.messages.stop_replica import StopReplicaRequest
from ottla.wire.messages.update_metadata import UpdateMetadataRequest
from ottla.wire.types import NO_EPOCH

ControlRequest = LeaderAndIsrRequest | StopReplicaRequest | UpdateMetadataRequest


class ControllerFence:
    """Compares the epochs of requests with those that this broker knows."""

    def __init__(self, broker_epoch: Callable[[], int]) -> None:
        self.controller_epoch = 0
        self._broker_epoch = broker_epoch

    def refusal(self, request: ControlRequest) -> ErrorCode | None:
        """Return the error that answers a request on its arrival; None if there is none."""
        if request.broker_epoch != NO_EPOCH and request.broker_epoch < self._broker_epoch():
            return ErrorCode.STALE_BROKER_EPOCH
        return ErrorCode.STALE_CONTROLLER_EPOCH if request.controller_epoch < self.controller_epoch else None

    def admit(self, request: ControlRequest) -> bool:
        """Take over the epoch of the controller; return False if a newer controller was heard since the arrival."""
        if request.controller_epoch < self.controller_epoch:
            return False
        self.controller_epoch = request.controller_epoch
        return True
