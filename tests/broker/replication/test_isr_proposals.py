import itertools
import logging
from collections.abc import AsyncIterator, Callable, Iterable
from pathlib import Path
from typing import Any

import pytest
import trio
import trio.testing
from trio.testing import MockClock

from ottla.broker.replicas.in_sync import InSyncReplicas
from ottla.broker.replicas.partition import Partition
from ottla.broker.replicas.reads import Reader
from ottla.broker.replicas.watchers import HIGH_WATERMARK
from ottla.broker.replication.isr_proposals import IsrChanges
from ottla.wire.errors import ErrorCode
from ottla.wire.messages.alter_partition import (
    AlterPartitionRequest,
    AlterPartitionResponse,
    PartitionDataResult,
    TopicDataResult,
)
from ottla.wire.messages.fetch import FetchPartition
from ottla.wire.records.batch import validate_produced
from ottla.wire.schema import Response
from ottla.wire.types import TopicPartition
from tests.broker.support.hosted import BROKER, EPOCH, NOW_MS, TOPIC, House, batch

LATEST = 3
MAX_LAG_MS = 30_000
Answers = Callable[[AlterPartitionRequest], Response]


class Controller:
    """What it was asked, and what it will answer; without an answer it keeps everybody waiting."""

    def __init__(self, version: int = LATEST) -> None:
        self.version = version
        self.asked: list[AlterPartitionRequest] = []
        self._answers, self.coming = trio.open_memory_channel[Answers | OSError](100)

    async def ask(self, request: AlterPartitionRequest) -> Response:
        # As on the wire: what a version does not have does not arrive.
        request = AlterPartitionRequest.decode(request.encode(self.version), self.version)
        self.asked.append(request)
        answer = await self.coming.receive()
        if isinstance(answer, OSError):
            raise answer
        return AlterPartitionResponse.decode(answer(request).encode(self.version), self.version)

    async def answer(self, answer: Answers | OSError) -> None:
        self._answers.send_nowait(answer)
        await trio.testing.wait_all_tasks_blocked()

    @property
    def partitions(self) -> list[tuple[int, list[int]]]:
        """The partitions of the last request, and the in-sync replicas wanted."""
        return [(each.partition_index, isr_of(each)) for topic in self.asked[-1].topics for each in topic.partitions]


def isr_of(asked: Any) -> list[int]:
    return list(asked.new_isr) or [each.broker_id for each in asked.new_isr_with_epochs]


def each(code: ErrorCode = ErrorCode.NONE, isr: Iterable[int] | None = None, **others: Any) -> Answers:
    """The same answer for each partition: by default, that all is done."""

    def answer(request: AlterPartitionRequest) -> Response:
        def result(asked: Any) -> PartitionDataResult:
            given: dict[str, Any] = {"leader_epoch": asked.leader_epoch, "partition_epoch": asked.partition_epoch + 1}
            members = isr_of(asked) if isr is None else list(isr)
            return PartitionDataResult(
                partition_index=asked.partition_index, error_code=code, leader_id=BROKER, isr=members, **given | others
            )

        topics = [
            TopicDataResult(
                topic_name=topic.topic_name,
                topic_id=topic.topic_id,
                partitions=[result(asked) for asked in topic.partitions],
            )
            for topic in request.topics
        ]
        return AlterPartitionResponse(error_code=ErrorCode.NONE, topics=topics)

    return answer


def whole(code: ErrorCode) -> Answers:
    return lambda request: AlterPartitionResponse(error_code=code, topics=())


class Leader:
    """A broker that leads partitions of three replicas, of which one is alive besides itself."""

    def __init__(self, path: Path, version: int) -> None:
        self.house = House(path)
        self.controller = Controller(version)
        self.changes = IsrChanges(self.house.parts, self.controller.ask, max_lag_ms=MAX_LAG_MS)
        self.house.parts.events.isr_proposed.subscribe(self.changes.propose)

    def lead(self, *isr: int, epoch: int = 5, partitions: Iterable[int] = (0,)) -> Partition:
        self.house.lead(epoch=epoch, isr=isr, replicas=(BROKER, 1, 2), partitions=partitions)
        return self.house.replicas.partition(TOPIC, 0)

    def append(self, index: int = 0) -> None:
        partition = self.house.replicas.partition(TOPIC, index)
        produced = validate_produced(batch(b"x"), api_version=9, rules=partition.rules, now_ms=NOW_MS)
        self.house.replicas.append(partition, produced, 1, NOW_MS)

    async def fetch(self, follower: int, offset: int, index: int = 0) -> None:
        asked = FetchPartition(
            partition=index, fetch_offset=offset, log_start_offset=0, partition_max_bytes=1 << 20, last_fetched_epoch=-1
        )
        reader = Reader(follower, -1, 0, from_leader_only=True)
        result = self.house.replicas.read(reader, TOPIC, index, bytes(16), asked, 1 << 20, at_least_one=True)
        assert result.error == ErrorCode.NONE
        await trio.testing.wait_all_tasks_blocked()

    async def pass_time(self, seconds: float) -> None:
        self.house.now_ms += int(seconds * 1000)
        await trio.sleep(seconds)
        await trio.testing.wait_all_tasks_blocked()


@pytest.fixture(params=[LATEST])
async def leader(tmp_path: Path, request: pytest.FixtureRequest, nursery: trio.Nursery) -> AsyncIterator[Leader]:
    leader = Leader(tmp_path, request.param)
    nursery.start_soon(leader.changes.run)
    yield leader
    leader.house.close()


@pytest.mark.parametrize("leader", [0, 1, 2, 3], indirect=True)
async def test_a_follower_that_caught_up_joins_when_the_controller_says_so(leader: Leader) -> None:
    partition = leader.lead(BROKER)
    leader.append()
    await leader.fetch(1, 1)
    (request,) = leader.controller.asked
    assert (request.broker_id, request.broker_epoch) == (BROKER, EPOCH)
    (asked,) = request.topics[0].partitions
    assert (asked.leader_epoch, asked.partition_epoch, isr_of(asked)) == (5, 5, [BROKER, 1])
    assert partition.in_sync == InSyncReplicas([BROKER], [BROKER, 1])
    await leader.controller.answer(each())
    assert partition.in_sync == InSyncReplicas([BROKER, 1])
    assert partition.partition_epoch == 6


async def test_a_follower_that_is_behind_or_dead_is_not_proposed(leader: Leader) -> None:
    leader.lead(BROKER)
    leader.append()
    await leader.fetch(1, 0)
    await leader.fetch(2, 1)
    assert leader.controller.asked == []


async def test_the_high_watermark_waits_for_a_proposed_member(leader: Leader, autojump_clock: MockClock) -> None:
    partition = leader.lead(BROKER)
    leader.append()
    await leader.fetch(1, 1)
    leader.append()
    await leader.pass_time(40)
    assert partition.high_watermark == 1
    await leader.controller.answer(each())
    assert partition.high_watermark == 1
    await leader.fetch(1, 2)
    assert partition.high_watermark == 2


async def test_the_high_watermark_moves_only_when_a_lagging_follower_has_left(
    leader: Leader, autojump_clock: MockClock, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO, "kafka.cluster.Partition")
    partition = leader.lead(BROKER, 1, 2)
    moved: list[int] = []
    leader.append()
    await leader.fetch(1, 1)
    await leader.fetch(2, 1)
    leader.append()
    await leader.fetch(1, 2)
    await leader.pass_time(29)
    assert leader.controller.asked == []
    await leader.pass_time(31)
    assert leader.controller.partitions == [(0, [BROKER, 1])]
    assert partition.high_watermark == 1
    assert [each.getMessage() for each in caplog.records if each.name == "kafka.cluster.Partition"][1:] == [
        "[Partition orders-0] Leader: (highWatermark: 1, endOffset: 2). Out of sync replicas: "
        f"(brokerId: 2, endOffset: 1, lastCaughtUpTimeMs: {NOW_MS})"
    ]
    watcher = type("Watcher", (), {"partition_moved": lambda self: moved.append(partition.high_watermark)})()
    leader.house.parts.signal.watch(TopicPartition(TOPIC, 0), HIGH_WATERMARK, watcher)
    await leader.controller.answer(each())
    assert partition.high_watermark == 2
    assert moved == [2]


async def test_a_proposal_made_during_a_request_goes_into_the_next_one(leader: Leader) -> None:
    leader.lead(BROKER, partitions=range(3))
    await leader.fetch(1, 0)
    await leader.fetch(1, 0, index=1)
    await leader.fetch(1, 0, index=2)
    assert leader.controller.partitions == [(0, [BROKER, 1])]
    await leader.controller.answer(each())
    assert leader.controller.partitions == [(1, [BROKER, 1]), (2, [BROKER, 1])]
    await leader.controller.answer(each())
    assert len(leader.controller.asked) == 2


@pytest.mark.parametrize("code", [ErrorCode.INELIGIBLE_REPLICA, ErrorCode.OPERATION_NOT_ATTEMPTED])
async def test_a_proposal_that_was_not_committed_is_repeated_ever_more_rarely_and_logged_once(
    leader: Leader, autojump_clock: MockClock, caplog: pytest.LogCaptureFixture, code: ErrorCode
) -> None:
    caplog.set_level(logging.INFO, "kafka.cluster.Partition")
    partition = leader.lead(BROKER)
    asked: list[float] = []
    for _ in range(300):
        # As a follower asks: with nothing new there, again and again.
        await leader.fetch(1, 0)
        if len(leader.controller.asked) > len(asked):
            asked.append(trio.current_time())
            await leader.controller.answer(each(code))
        assert partition.in_sync == InSyncReplicas([BROKER])
        await leader.pass_time(0.01)
    pauses = [after - before for before, after in itertools.pairwise(asked)]
    assert pauses[:6] == pytest.approx([0.05, 0.1, 0.2, 0.4, 0.8, 1.0], abs=0.015)
    told = [each.getMessage() for each in caplog.records if each.name == "kafka.cluster.Partition"]
    assert told == [
        "[Partition orders-0] Proposing in-sync replicas InSyncReplicas([0] -> [0, 1])",
        "[Partition orders-0] The in-sync replicas stay as they are: "
        f"the controller answers {code.name} to InSyncReplicas([0] -> [0, 1])",
    ]
    await leader.pass_time(1)
    await leader.fetch(1, 0)
    await leader.controller.answer(each())
    assert partition.in_sync == InSyncReplicas([BROKER, 1])


@pytest.mark.parametrize("code", [ErrorCode.UNKNOWN_SERVER_ERROR, ErrorCode.NOT_CONTROLLER])
async def test_a_failed_request_is_repeated_ever_more_rarely_and_logged_once(
    leader: Leader, autojump_clock: MockClock, caplog: pytest.LogCaptureFixture, code: ErrorCode
) -> None:
    leader.lead(BROKER, partitions=[0, 1])
    await leader.fetch(1, 0)
    for _ in range(10):
        answered = len(leader.controller.asked)
        await leader.controller.answer(each(code))
        while len(leader.controller.asked) == answered:
            await leader.pass_time(0.05)
    assert trio.current_time() == pytest.approx(6.55, abs=0.5)
    assert [each.levelname for each in caplog.records] == ["WARNING"]
    # What comes meanwhile does not wait for that.
    await leader.controller.answer(each(code))
    asked = len(leader.controller.asked)
    await leader.fetch(1, 0, index=1)
    assert len(leader.controller.asked) == asked + 1


@pytest.mark.parametrize(
    "code",
    [
        ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
        ErrorCode.UNKNOWN_TOPIC_ID,
        ErrorCode.FENCED_LEADER_EPOCH,
        ErrorCode.INVALID_UPDATE_VERSION,
        ErrorCode.INVALID_REQUEST,
        ErrorCode.NEW_LEADER_ELECTED,
    ],
)
async def test_a_leader_that_is_outdated_waits_for_its_next_epoch(
    leader: Leader, autojump_clock: MockClock, code: ErrorCode
) -> None:
    partition = leader.lead(BROKER)
    await leader.fetch(1, 0)
    await leader.controller.answer(each(code))
    await leader.fetch(1, 0)
    await leader.pass_time(60)
    assert len(leader.controller.asked) == 1
    assert partition.in_sync == InSyncReplicas([BROKER], [BROKER, 1])
    leader.lead(BROKER, epoch=6)
    await leader.fetch(1, 0)
    assert leader.controller.asked[-1].topics[0].partitions[0].partition_epoch == 6


@pytest.mark.parametrize(
    "answer",
    [
        OSError("unreachable"),
        whole(ErrorCode.NOT_CONTROLLER),
        whole(ErrorCode.STALE_BROKER_EPOCH),
        whole(ErrorCode.NONE),
        each(ErrorCode.NOT_CONTROLLER),
        each(ErrorCode.UNKNOWN_SERVER_ERROR),
        each(9999),  # type: ignore[arg-type]
    ],
)
async def test_a_proposal_is_sent_again_after_any_other_error(
    leader: Leader, autojump_clock: MockClock, answer: Answers | OSError
) -> None:
    partition = leader.lead(BROKER)
    await leader.fetch(1, 0)
    await leader.controller.answer(answer)
    assert len(leader.controller.asked) == 1
    await leader.pass_time(0.1)
    assert len(leader.controller.asked) == 2
    await leader.controller.answer(each())
    assert partition.in_sync == InSyncReplicas([BROKER, 1])


async def test_the_reason_of_a_failure_is_logged_once_until_a_request_succeeds(
    leader: Leader, autojump_clock: MockClock, caplog: pytest.LogCaptureFixture
) -> None:
    leader.lead(BROKER)
    await leader.fetch(1, 0)
    unreached, refused = OSError("unreachable"), whole(ErrorCode.STALE_BROKER_EPOCH)
    for answer in (
        unreached,
        unreached,
        unreached,
        refused,
        refused,
        unreached,
        each(ErrorCode.NOT_CONTROLLER),
        refused,
    ):
        await leader.controller.answer(answer)
        await leader.pass_time(1)
    why = "The controller changes no in-sync replicas: it "
    told = [each.getMessage().removeprefix(why) for each in caplog.records if each.getMessage().startswith(why)]
    assert told == [
        "was not reached: unreachable",
        "answers STALE_BROKER_EPOCH",
        "was not reached: unreachable",
        "answers STALE_BROKER_EPOCH",
    ]


async def test_an_answer_for_an_older_leader_epoch_changes_nothing(leader: Leader, autojump_clock: MockClock) -> None:
    partition = leader.lead(BROKER)
    await leader.fetch(1, 0)
    leader.lead(BROKER, 1, epoch=7)
    await leader.controller.answer(each(partition_epoch=99))
    assert partition.in_sync == InSyncReplicas([BROKER, 1])
    assert partition.partition_epoch == 7
    await leader.pass_time(1)
    assert len(leader.controller.asked) == 1


async def test_a_broker_that_does_not_lead_sends_no_proposal(leader: Leader, autojump_clock: MockClock) -> None:
    leader.lead(BROKER)
    await leader.fetch(1, 0)
    await leader.controller.answer(whole(ErrorCode.NOT_CONTROLLER))
    leader.house.lead(leader=1, isr=(1,), replicas=(BROKER, 1, 2), epoch=8)
    await leader.pass_time(1)
    assert len(leader.controller.asked) == 1


async def test_a_success_with_an_older_partition_epoch_changes_nothing(leader: Leader) -> None:
    partition = leader.lead(BROKER)
    await leader.fetch(1, 0)
    await leader.controller.answer(each(partition_epoch=4))
    assert partition.partition_epoch == 5
    assert partition.in_sync.is_changing
