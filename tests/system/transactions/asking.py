"""Questions to brokers about transactions: their states, their coordinators, and what readers do not see yet."""

import contextlib
import time
from collections.abc import Callable, Mapping, Sequence
from typing import NamedTuple, TypeVar, cast

import confluent_kafka
from confluent_kafka import IsolationLevel
from confluent_kafka.admin import AdminClient
from confluent_kafka.admin._listoffsets import OffsetSpec
from confluent_kafka.cimpl import TopicPartition

from ottla.wire.errors import ErrorCode
from ottla.wire.messages.describe_transactions import (
    DescribeTransactionsRequest,
    DescribeTransactionsResponse,
    TransactionState,
)
from ottla.wire.messages.find_coordinator import FindCoordinatorRequest, FindCoordinatorResponse
from ottla.wire.messages.list_transactions import ListTransactionsRequest, ListTransactionsResponse
from ottla.wire.messages.offset_fetch import (
    OffsetFetchRequest,
    OffsetFetchRequestGroup,
    OffsetFetchRequestTopics,
    OffsetFetchResponse,
)
from tests.support.raw import RawClient

PATIENCE_S = 60.0
# Settings with which a client continues soon after a broker is gone.
QUICK: Mapping[str, str | int] = {
    "reconnect.backoff.ms": 20,
    "reconnect.backoff.max.ms": 100,
    "retry.backoff.ms": 50,
    # If no broker answers, librdkafka forgets all brokers, but not which of them coordinates a group, and waits for
    # that one forever (librdkafka issue 5511).
    "metadata.recovery.strategy": "none",
    "log_level": 0,
}
IDLE = frozenset({"Empty", "CompleteCommit", "CompleteAbort"})
FIND_VERSION = 4
OF_GROUPS, OF_TRANSACTIONS = 0, 1
FETCH_VERSION = 8

T = TypeVar("T")


class Coordinator(NamedTuple):
    """The coordinator of a group or a transactional id, and its address."""

    broker_id: int
    bootstrap: str


def wait_for(what: Callable[[], T], is_fine: Callable[[T], bool] = bool) -> T:
    """Call a function until its result is fine, and return the result. A broker may be gone meanwhile."""
    deadline = time.monotonic() + PATIENCE_S
    found: object = "nothing"
    while True:
        with contextlib.suppress(OSError, confluent_kafka.KafkaException):
            found = result = what()
            if is_fine(result):
                return result
        assert time.monotonic() < deadline, f"still {found}"
        time.sleep(0.02)


def coordinator(bootstrap: str, key: str, kind: int = OF_TRANSACTIONS) -> Coordinator:
    """Return the coordinator, as the first broker knows it that answers. Raises OSError without any."""
    request = FindCoordinatorRequest(key_type=kind, coordinator_keys=[key])
    for place in bootstrap.split(","):
        with contextlib.suppress(OSError), RawClient(place) as client:
            (found,) = cast(FindCoordinatorResponse, client.ask(request, FIND_VERSION)).coordinators
            if not found.error_code:
                return Coordinator(found.node_id, f"{found.host}:{found.port}")
    raise OSError(f"{key} has no coordinator")


def described(bootstrap: str, transactional_id: str) -> TransactionState:
    """Return the description of a transaction. Raises OSError if its coordinator is not ready."""
    with RawClient(coordinator(bootstrap, transactional_id).bootstrap) as client:
        response = client.ask(DescribeTransactionsRequest(transactional_ids=[transactional_id]), 0)
    (found,) = cast(DescribeTransactionsResponse, response).transaction_states
    if found.error_code in (ErrorCode.NOT_COORDINATOR, ErrorCode.COORDINATOR_LOAD_IN_PROGRESS):
        raise OSError(f"{transactional_id}: {found.error_code}")
    return found


def wait_for_state(bootstrap: str, transactional_id: str, *states: str) -> TransactionState:
    """Wait until a transaction is in one of these states; return its description."""
    return wait_for(lambda: described(bootstrap, transactional_id), lambda it: it.transaction_state in states)


def states(bootstrap: str) -> dict[str, str]:
    """Return the state of each transactional id. Raises OSError unless all brokers answer, and have loaded them."""
    found = {}
    for place in bootstrap.split(","):
        with RawClient(place) as client:
            response = client.ask(ListTransactionsRequest(state_filters=[], producer_id_filters=[]), 0)
        listed = cast(ListTransactionsResponse, response)
        if listed.error_code:
            raise OSError(f"{place}: {listed.error_code}")
        found.update({each.transactional_id: each.transaction_state for each in listed.transaction_states})
    return found


def ends(bootstrap: str, isolation: IsolationLevel) -> dict[tuple[str, int], int]:
    """Return the end of each partition of all topics: for READ_COMMITTED the last stable offset."""
    admin = AdminClient({"bootstrap.servers": bootstrap, **QUICK})
    topics = admin.list_topics(timeout=PATIENCE_S).topics
    places = [TopicPartition(topic, each) for topic, found in topics.items() for each in found.partitions]
    asked = {place: OffsetSpec.latest() for place in places}  # type: ignore[no-untyped-call]
    answers = admin.list_offsets(asked, isolation_level=isolation, request_timeout=PATIENCE_S)
    return {(each.topic, each.partition): answer.result().offset for each, answer in answers.items()}


def behind(bootstrap: str) -> dict[tuple[str, int], tuple[int, int]]:
    """Return the last stable offset and the end of each partition in which they differ."""
    stable = ends(bootstrap, IsolationLevel.READ_COMMITTED)
    last = ends(bootstrap, IsolationLevel.READ_UNCOMMITTED)
    return {place: (stable[place], last[place]) for place in last if stable[place] != last[place]}


def wait_until_all_has_ended(bootstrap: str) -> dict[str, str]:
    """Wait until no transaction is open, for its coordinator and for readers; return the states."""
    found = wait_for(lambda: states(bootstrap), lambda them: set(them.values()) <= IDLE)
    wait_for(lambda: behind(bootstrap), lambda them: not them)
    return found


def wait_until_in_sync(bootstrap: str) -> None:
    """Wait until all replicas of all partitions are in sync, and each partition has a leader."""
    admin = AdminClient({"bootstrap.servers": bootstrap, **QUICK})
    wait_for(
        lambda: [
            (name, each.id, each.leader, each.isrs)
            for name, topic in admin.list_topics(timeout=PATIENCE_S).topics.items()
            for each in topic.partitions.values()
            if each.leader < 0 or len(each.isrs) != len(each.replicas)
        ],
        lambda lagging: not lagging,
    )


def committed(bootstrap: str, group: str, topic: str, partitions: Sequence[int], *, stable: bool) -> dict[int, int]:
    """Return the committed offset of each partition, or its error code, negative, if the offset is pending.

    A partition without an offset has -1. Raises OSError if the group's coordinator is not ready.
    """
    topics = [OffsetFetchRequestTopics(name=topic, partition_indexes=partitions)]
    request = OffsetFetchRequest(groups=[OffsetFetchRequestGroup(group_id=group, topics=topics)], require_stable=stable)
    with RawClient(coordinator(bootstrap, group, OF_GROUPS).bootstrap) as client:
        (answer,) = cast(OffsetFetchResponse, client.ask(request, FETCH_VERSION)).groups
    if answer.error_code:
        raise OSError(f"{group}: {answer.error_code}")
    return {
        each.partition_index: -each.error_code if each.error_code else each.committed_offset
        for found in answer.topics
        for each in found.partitions
    }
