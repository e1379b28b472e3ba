"""What happens to hosted partitions, and whom it is reported to.

Owns the lists of listeners; `assembly` fills them. Must not know who listens. Listeners are called at once, in the
order of their subscription, and do not await. Counterpart in Kafka: PartitionListener.
"""

from collections.abc import Callable
from typing import Generic, ParamSpec

from ottla.broker.replicas.partition import Partition

P = ParamSpec("P")


class Event(Generic[P]):
    """A kind of event, and its listeners."""

    def __init__(self) -> None:
        self._listeners: list[Callable[P, object]] = []

    def subscribe(self, listener: Callable[P, object]) -> None:
        """Call `listener` at each event from now on."""
        self._listeners.append(listener)

    def notify(self, *args: P.args, **kwargs: P.kwargs) -> None:
        """Call all listeners."""
        for listener in self._listeners:
            listener(*args, **kwargs)


class PartitionEvents:
    """The events of one broker."""

    def __init__(self) -> None:
        # The controller gave the partition a role, maybe the one that it had, in a new leader epoch.
        self.leading: Event[[Partition]] = Event()
        self.following: Event[[Partition]] = Event()
        # The partition is not served any more: the controller stopped it, or its log directory failed.
        self.stopped: Event[[Partition]] = Event()
        # Another log, with the same records, took the place of the partition's log.
        self.log_replaced: Event[[Partition]] = Event()
        # The leader wants other in-sync replicas, and the controller has to be asked for them.
        self.isr_proposed: Event[[Partition]] = Event()
        # A disk failed, and the controller has to hear that there are replicas that are not served.
        self.offline: Event[[]] = Event()
