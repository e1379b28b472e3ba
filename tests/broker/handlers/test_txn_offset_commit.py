"""TxnOffsetCommit: unknown partitions, the verification of the transaction, and the coordinator of the group."""

from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest

from ottla.broker.handlers import txn_offset_commit
from ottla.broker.loop.deferred import CloseConnection, Deferred
from ottla.broker.transactions.offsets import Verification
from ottla.wire.api_keys import ApiKey
from ottla.wire.errors import ErrorCode
from ottla.wire.messages.describe_groups import DescribeGroupsRequest
from ottla.wire.messages.txn_offset_commit import (
    TxnOffsetCommitRequest,
    TxnOffsetCommitRequestPartition,
    TxnOffsetCommitRequestTopic,
    TxnOffsetCommitResponse,
)
from tests.broker.support.hosted import House, context
from tests.coordinator.serving import EPOCH, Broker

GONE = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
LATEST = 4


def request(*places: tuple[str, int, int], group: str = "g", **fields: Any) -> TxnOffsetCommitRequest:
    """A commit of these offsets, each a topic, a partition and an offset."""
    topics = [
        TxnOffsetCommitRequestTopic(
            name=topic,
            partitions=[
                TxnOffsetCommitRequestPartition(partition_index=index, committed_offset=offset, committed_metadata=None)
            ],
        )
        for topic, index, offset in places
    ]
    return TxnOffsetCommitRequest(
        transactional_id="tx", group_id=group, producer_id=1, producer_epoch=0, topics=topics, **fields
    )


def codes(response: TxnOffsetCommitResponse) -> list[tuple[str, int, ErrorCode]]:
    return [
        (topic.name, each.partition_index, ErrorCode(each.error_code))
        for topic in response.topics
        for each in topic.partitions
    ]


class Asked:
    """A coordinator of transactions, which answers with `error` at once, or when a test completes `waiting`."""

    def __init__(self) -> None:
        self.error = ErrorCode.NONE
        self.waiting: Deferred[Verification] | None = None
        self.requests: list[tuple[TxnOffsetCommitRequest, int]] = []

    def __call__(self, request: TxnOffsetCommitRequest, version: int) -> Deferred[Verification]:
        self.requests.append((request, version))
        answer: Deferred[Verification] = Deferred(applied=False)
        if self.waiting is not None:
            return self.waiting
        answer.complete(Verification(self.error))
        return answer

    def wait(self) -> Deferred[Verification]:
        """Return the answer to the next request, which the test completes."""
        self.waiting = Deferred(applied=False)
        return self.waiting


class Handling:
    """The handler with a coordinator of groups, over topics t (2 partitions) and u (1)."""

    def __init__(self, path: Path) -> None:
        self.house = House(path)
        self.house.tell("t", [0, 1])
        self.house.tell("u", [0])
        self.broker = Broker()
        self.broker.lead()
        self.verify = Asked()

    def handle(
        self, request: TxnOffsetCommitRequest, version: int = LATEST
    ) -> TxnOffsetCommitResponse | Deferred[TxnOffsetCommitResponse]:
        """Send a request over the wire."""
        request = TxnOffsetCommitRequest.decode(request.encode(version), version)
        return txn_offset_commit.handle(
            request,
            context(ApiKey.TXN_OFFSET_COMMIT, version),
            groups=self.broker.coordinator,
            metadata=self.house.metadata,
            verify=self.verify,
        )

    def codes(self, request: TxnOffsetCommitRequest, version: int = LATEST) -> list[tuple[str, int, ErrorCode]]:
        """The errors of a response that comes at once."""
        response = self.handle(request, version)
        response = response.response if isinstance(response, Deferred) else response
        return codes(TxnOffsetCommitResponse.decode(response.encode(version), version))

    def committed(self, topic: str = "t") -> int:
        """The offset that counts once the transaction is committed."""
        self.broker.coordinator.transaction_ended(0, 1, True)
        return self.broker.committed(topic=topic)


@pytest.fixture
async def handling(tmp_path: Path) -> AsyncIterator[Handling]:
    handling = Handling(tmp_path)
    yield handling
    handling.house.close()


@pytest.mark.parametrize("version", range(LATEST + 1))
async def test_offsets_are_committed_in_every_version(handling: Handling, version: int) -> None:
    assert handling.codes(request(("t", 0, 5), ("u", 0, 7)), version) == [
        ("t", 0, ErrorCode.NONE), ("u", 0, ErrorCode.NONE),
    ]  # fmt: skip
    ((verified, asked_version),) = handling.verify.requests
    assert (verified.transactional_id, verified.group_id, asked_version) == ("tx", "g", version)
    assert handling.broker.committed() == -1
    assert (handling.committed(), handling.committed("u")) == (5, 7)


async def test_unknown_partitions_are_refused_beside_the_others(handling: Handling) -> None:
    assert handling.codes(request(("x", 0, 1), ("t", 0, 5), ("t", 2, 5), ("u", 1, 5))) == [
        ("x", 0, GONE), ("u", 1, GONE), ("t", 2, GONE), ("t", 0, ErrorCode.NONE),
    ]  # fmt: skip
    assert handling.committed() == 5


async def test_nobody_is_asked_for_unknown_partitions_alone(handling: Handling) -> None:
    assert handling.codes(request(("x", 0, 1), ("t", 2, 1), group="")) == [("x", 0, GONE), ("t", 2, GONE)]
    assert not handling.verify.requests


async def test_of_a_partition_that_is_named_twice_the_last_offset_counts(handling: Handling) -> None:
    twice = request(("t", 0, 5), ("t", 0, 3))
    assert handling.codes(twice) == [("t", 0, ErrorCode.NONE)]
    assert handling.committed() == 3
    handling.verify.error = ErrorCode.INVALID_TXN_STATE
    assert handling.codes(twice) == [("t", 0, ErrorCode.INVALID_TXN_STATE)]


@pytest.mark.parametrize(
    ("outcome", "version", "error"),
    [
        (ErrorCode.INVALID_TXN_STATE, 3, ErrorCode.INVALID_TXN_STATE),
        (ErrorCode.TRANSACTION_ABORTABLE, 4, ErrorCode.TRANSACTION_ABORTABLE),
        (ErrorCode.INVALID_PRODUCER_EPOCH, 4, ErrorCode.INVALID_PRODUCER_EPOCH),
        (ErrorCode.INVALID_PRODUCER_ID_MAPPING, 4, ErrorCode.INVALID_PRODUCER_ID_MAPPING),
        (ErrorCode.NOT_ENOUGH_REPLICAS, 4, ErrorCode.COORDINATOR_NOT_AVAILABLE),
        (ErrorCode.NETWORK_EXCEPTION, 2, ErrorCode.COORDINATOR_LOAD_IN_PROGRESS),
        (ErrorCode.NETWORK_EXCEPTION, 1, ErrorCode.COORDINATOR_NOT_AVAILABLE),
        (ErrorCode.COORDINATOR_LOAD_IN_PROGRESS, 1, ErrorCode.COORDINATOR_NOT_AVAILABLE),
    ],
)
@pytest.mark.parametrize("comes_later", [False, True])
async def test_what_the_verification_refuses_is_not_appended(
    handling: Handling, outcome: ErrorCode, version: int, error: ErrorCode, comes_later: bool
) -> None:
    handling.verify.error = outcome
    waiting = handling.verify.wait() if comes_later else None
    reply = handling.handle(request(("t", 0, 5), ("u", 0, 5), ("x", 0, 5)), version)
    assert isinstance(reply, Deferred)
    assert reply.done is not comes_later
    if waiting is not None:
        waiting.complete(Verification(outcome))
    assert codes(reply.response) == [("x", 0, GONE), ("t", 0, error), ("u", 0, error)]
    assert not handling.broker.log.records


async def test_an_unknown_group_exists_after_a_refused_commit(handling: Handling) -> None:
    handling.verify.error = ErrorCode.INVALID_TXN_STATE
    handling.codes(request(("x", 0, 5), group="of nothing known"))
    handling.codes(request(("t", 0, 5), group="new"))
    asked = DescribeGroupsRequest(groups=["of nothing known", "new"])
    found = handling.broker.coordinator.describe_groups(asked).groups
    assert [each.group_state for each in found] == ["Dead", "Empty"]


async def test_offsets_are_appended_when_the_transaction_is_verified(handling: Handling) -> None:
    waiting = handling.verify.wait()
    handling.broker.log.held = []
    reply = handling.handle(request(("t", 0, 5)))
    assert isinstance(reply, Deferred)
    assert not handling.broker.log.held
    waiting.complete(Verification(ErrorCode.NONE))
    (finish,) = handling.broker.log.held
    assert not reply.done
    finish()
    assert codes(reply.response) == [("t", 0, ErrorCode.NONE)]
    assert handling.committed() == 5


async def test_a_verification_that_closes_the_connection_ends_the_request(handling: Handling) -> None:
    waiting = handling.verify.wait()
    reply = handling.handle(request(("t", 0, 5)))
    assert isinstance(reply, Deferred)
    waiting.close(CloseConnection("the broker stops"))
    with pytest.raises(CloseConnection):
        _ = reply.response
    assert not handling.broker.log.records


async def test_a_group_that_moves_away_during_the_verification_is_refused(handling: Handling) -> None:
    waiting = handling.verify.wait()
    reply = handling.handle(request(("t", 0, 5)))
    assert isinstance(reply, Deferred)
    handling.broker.coordinator.runtime.unload(0, EPOCH)
    waiting.complete(Verification(ErrorCode.NONE))
    assert codes(reply.response) == [("t", 0, ErrorCode.NOT_COORDINATOR)]


@pytest.mark.parametrize(("version", "error"), [(1, 15), (2, 14)])
async def test_nothing_is_verified_for_groups_that_are_not_coordinated_here(
    handling: Handling, version: int, error: int
) -> None:
    runtime = handling.broker.coordinator.runtime
    assert handling.codes(request(("t", 0, 5), group="")) == [("t", 0, ErrorCode.INVALID_GROUP_ID)]
    runtime.unload(0, EPOCH)
    assert handling.codes(request(("t", 0, 5))) == [("t", 0, ErrorCode.NOT_COORDINATOR)]
    runtime.begin_loading(0, EPOCH + 1)
    assert handling.codes(request(("t", 0, 5)), version) == [("t", 0, error)]
    assert not handling.verify.requests


async def test_the_group_checks_the_member_from_version_3_on(handling: Handling) -> None:
    of_member = request(("t", 0, 5), generation_id_or_member_epoch=1, member_id="m")
    assert handling.codes(of_member, 3) == [("t", 0, ErrorCode.UNKNOWN_MEMBER_ID)]
    with_older_version = request(("t", 0, 5))
    assert handling.codes(with_older_version, 2) == [("t", 0, ErrorCode.NONE)]


@pytest.mark.parametrize("version", range(LATEST + 1))
def test_an_error_response_has_the_error_for_each_partition(version: int) -> None:
    denied = ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED
    response = txn_offset_commit.error_response(request(("t", 0, 5), ("x", 3, 5)), version, denied)
    decoded = TxnOffsetCommitResponse.decode(response.encode(version), version)
    assert codes(decoded) == [("t", 0, denied), ("x", 3, denied)]
