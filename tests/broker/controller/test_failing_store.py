"""A store that fails at any of its operations: the controller replies all the same, and works on."""

from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from contextlib import asynccontextmanager
from enum import Enum
from pathlib import Path
from random import Random
from typing import Any, TypeVar

import pytest
import trio
import trio.testing

from ottla.broker.loop.deferred import Deferred
from ottla.wire.errors import ErrorCode, KafkaError
from ottla.wire.messages.allocate_producer_ids import AllocateProducerIdsRequest
from ottla.wire.messages.alter_partition import AlterPartitionRequest, PartitionData, TopicData
from ottla.wire.messages.controlled_shutdown import ControlledShutdownRequest
from ottla.wire.messages.create_partitions import CreatePartitionsTopic
from ottla.wire.types import TopicPartition
from ottla.zk import znodes
from ottla.zk.store import ChangesByMulti, Found, Operation, Result, Session, Stat, StoreError, StoreFailedError
from tests.broker.controller.cluster import LONG_MS, Broker, Cluster, assigned_topic, running, settle, topic, wait_for

T = TypeVar("T")
TIMEOUT_MS = 3_000
# More operations than any event of these tests needs.
MANY = 60


class Fault(Enum):
    """The kinds of failures."""

    REFUSED = "no read or write is done"
    KEPT = "writes are done, but reported as failed"
    BUG = "an unexpected exception"


class FailingSession(ChangesByMulti):
    """A session that fails at one operation of those that follow `arm`, or from that one on until `disarm`."""

    def __init__(self, session: Session) -> None:
        self._session = session
        self._fault = Fault.REFUSED
        self._lasts = False
        self._left = 0
        self._refused = ""
        self.has_failed = False

    def arm(self, fault: Fault, operation: int, *, lasts: bool) -> None:
        self._fault, self._left, self._lasts, self.has_failed = fault, operation, lasts, False

    def refuse(self, path: str) -> None:
        """Fail at the next write of this znode."""
        self._refused = path

    def disarm(self) -> None:
        self._left, self._lasts = 0, False

    def _fails(self) -> bool:
        if self._left == 0:
            return False
        if self._left > 1 or not self._lasts:
            self._left -= 1
            if self._left > 0:
                return False
        self.has_failed = True
        if self._fault is Fault.BUG:
            raise RuntimeError("injected")
        return True

    @property
    def session_id(self) -> int:
        return self._session.session_id

    async def _read(self, read: Callable[[], Awaitable[T]]) -> T:
        if self._fails():
            raise StoreFailedError("injected")
        return await read()

    async def get(self, path: str, *, watch: bool = False) -> Found:
        return await self._read(lambda: self._session.get(path, watch=watch))

    async def get_many(self, paths: Sequence[str], *, watch: bool = False) -> list[Found | None]:
        return await self._read(lambda: self._session.get_many(paths, watch=watch))

    async def exists(self, path: str, *, watch: bool = False) -> Stat | None:
        return await self._read(lambda: self._session.exists(path, watch=watch))

    async def children(self, path: str, *, watch: bool = False) -> list[str]:
        return await self._read(lambda: self._session.children(path, watch=watch))

    async def multi_all(self, transactions: Sequence[Sequence[Operation]]) -> list[list[Result] | StoreError]:
        if self._refused in [each.path for operations in transactions for each in operations]:
            self._refused = ""
        elif not self._fails():
            return await self._session.multi_all(transactions)
        if self._fault is Fault.KEPT:
            await self._session.multi_all(transactions)
        return [StoreFailedError("injected")] * len(transactions)

    async def close(self) -> None:
        await self._session.close()


class FailingBroker(Broker):
    """A broker with a FailingSession."""

    def __init__(self, cluster: Cluster, broker_id: int, nursery: trio.Nursery) -> None:
        super().__init__(cluster, broker_id, nursery)
        self.session = self.failing = FailingSession(self.session)  # type: ignore[assignment]


# The error codes that Kafka returns for these requests, and if ZooKeeper fails.
EXPECTED = {
    ErrorCode.NONE,
    ErrorCode.UNKNOWN_SERVER_ERROR,
    ErrorCode.REQUEST_TIMED_OUT,
    ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
    ErrorCode.INVALID_PARTITIONS,
}

Ask = Callable[[FailingBroker], "Deferred[Any]"]


async def create(broker: Broker, *topics: Any) -> None:
    outcomes = await wait_for(broker.controller.create_topics(topics, LONG_MS, validate_only=False))
    assert [each.error for each in outcomes.values()] == [None] * len(topics)


def codes_of(response: Any) -> list[int]:
    """The error codes of a response, one for each topic or partition of the request."""
    if isinstance(response, KafkaError):
        return [response.code]
    if not isinstance(response, dict):
        return [response.error_code]
    errors = [getattr(each, "error", each) for each in response.values()]
    return [ErrorCode.NONE if each is None else each.code if isinstance(each, KafkaError) else each for each in errors]


# Each prepares an event, with a new name each time, and returns the function that sends the request.


async def creation(broker: FailingBroker, name: str) -> Ask:
    topics = [topic(name, 2), topic(f"{name}-2"), topic(f"{name}-none", 0)]
    return lambda broker: broker.controller.create_topics(topics, TIMEOUT_MS, validate_only=False)


async def impatient_creation(broker: FailingBroker, name: str) -> Ask:
    return lambda broker: broker.controller.create_topics([topic(name)], 0, validate_only=False)


async def validation(broker: FailingBroker, name: str) -> Ask:
    return lambda broker: broker.controller.create_topics([topic(name)], TIMEOUT_MS, validate_only=True)


async def more_partitions(broker: FailingBroker, name: str) -> Ask:
    await create(broker, topic(name), topic(f"{name}-2"))
    wanted = [CreatePartitionsTopic(name=each, count=3, assignments=None) for each in (name, f"{name}-2", "unknown")]
    return lambda broker: broker.controller.create_partitions(wanted, TIMEOUT_MS, validate_only=False)


async def deletion(broker: FailingBroker, name: str) -> Ask:
    await create(broker, assigned_topic(name, (0, 1)))
    return lambda broker: broker.controller.delete_topics([name, "unknown"], TIMEOUT_MS)


async def election(broker: FailingBroker, name: str) -> Ask:
    await create(broker, assigned_topic(name, (0, 1)))
    partition = TopicPartition(name, 0)
    await wait_for(broker.controller.reassign({partition: (1, 0)}))
    await settle()
    assert broker.metadata.partitions(name)[0].leader == 0
    unknown = TopicPartition("unknown", 0)
    return lambda broker: broker.controller.elect_leaders([partition, unknown], TIMEOUT_MS, unclean=False)


async def reassignment(broker: FailingBroker, name: str) -> Ask:
    await create(broker, assigned_topic(name, (0, 1)), assigned_topic(f"{name}-2", (0,)))
    partitions = TopicPartition(name, 0), TopicPartition(f"{name}-2", 0), TopicPartition("unknown", 0)
    wanted = dict.fromkeys(partitions, (1,))
    return lambda broker: broker.controller.reassign(wanted)


async def smaller_isr(broker: FailingBroker, name: str) -> Ask:
    await create(broker, assigned_topic(name, (0, 1)))
    partition = broker.replicas.partition(name, 0)
    data = PartitionData(
        partition_index=0, leader_epoch=partition.leader_epoch, new_isr=(0,), leader_recovery_state=0, partition_epoch=0
    )
    topics = [TopicData(topic_name=name, partitions=[data])]
    request = AlterPartitionRequest(broker_id=0, broker_epoch=broker.epoch, topics=topics)
    return lambda broker: broker.controller.ask(request, 1)


async def departure(broker: FailingBroker, name: str) -> Ask:
    await create(broker, assigned_topic(name, (1, 0), (0, 1)))
    epoch = broker.cluster.brokers[1].epoch
    return lambda broker: broker.controller.ask(ControlledShutdownRequest(broker_id=1, broker_epoch=epoch), 3)


async def producer_ids(broker: FailingBroker, name: str) -> Ask:
    request = AllocateProducerIdsRequest(broker_id=0, broker_epoch=broker.epoch)
    return lambda broker: broker.controller.ask(request, 0)


EVENTS = [
    creation,
    impatient_creation,
    validation,
    more_partitions,
    deletion,
    election,
    reassignment,
    smaller_isr,
    departure,
    producer_ids,
]


@asynccontextmanager
async def failing(directory: Path) -> AsyncIterator[FailingBroker]:
    """The controller of two brokers, on a clock that jumps."""
    async with running(directory, 0, 1, kind=FailingBroker, auto_leader_rebalance_enable="false") as cluster:
        broker = cluster.brokers[0]
        assert isinstance(broker, FailingBroker)
        assert broker.controller.is_active
        yield broker


@pytest.mark.trials(few=1, soak=5)
@pytest.mark.parametrize("event", EVENTS)
async def test_every_request_gets_a_reply_wherever_the_store_fails(
    tmp_path: Path,
    autojump_clock: trio.testing.MockClock,
    event: Callable[[FailingBroker, str], Awaitable[Ask]],
    trials: int,
    seed: int,
) -> None:
    random = Random(seed)
    for trial in range(trials):
        directory = tmp_path / str(trial)
        directory.mkdir()
        async with failing(directory) as broker:
            for operation in range(1, MANY):
                fault, lasts = random.choice(list(Fault)), random.random() < 0.5
                name = f"{trial}-{operation}-{fault.name}-{'lasts' if lasts else 'once'}"
                ask = await event(broker, name)
                await settle()
                broker.failing.arm(fault, operation, lasts=lasts)
                codes = codes_of(await wait_for(ask(broker)))
                broker.failing.disarm()
                assert EXPECTED.issuperset(codes), name
                await works_on(broker, fault, name)
                if not broker.failing.has_failed:
                    break
            assert event is validation or 1 < operation < MANY - 1


async def next_controller(broker: FailingBroker) -> None:
    await broker.failing.delete(znodes.CONTROLLER)
    await settle()


async def works_on(broker: FailingBroker, fault: Fault, name: str) -> None:
    """Check that all topics in the store have leaders, and that no deletion is left."""
    # Long enough for all retries.
    await trio.sleep(5)
    if fault is Fault.BUG:
        # An unexpected exception is logged; the next controller repairs its effect.
        await next_controller(broker)
    # This broker must be the controller at the next fault.
    for _ in range(MANY):
        if not broker.controller.is_active:
            await next_controller(broker)
    await create(broker, topic(f"{name}-after"))
    for each in await broker.failing.children(znodes.TOPICS):
        leaders = [partition.leader for partition in broker.metadata.partitions(each).values()]
        assert leaders, each
        assert -1 not in leaders, each
    assert await broker.failing.children(znodes.DELETE_TOPICS) == []


@pytest.mark.parametrize(
    ("path", "timeout_ms", "code"),
    [
        ("/brokers/topics/t", LONG_MS, ErrorCode.UNKNOWN_SERVER_ERROR),
        ("/brokers/topics/t/partitions/0/state", 500, ErrorCode.REQUEST_TIMED_OUT),
        # The controller is a candidate again in time.
        ("/brokers/topics/t/partitions/0/state", LONG_MS, ErrorCode.NONE),
    ],
)
async def test_the_outcome_of_a_creation_depends_on_the_write_that_failed(
    tmp_path: Path, autojump_clock: trio.testing.MockClock, path: str, timeout_ms: int, code: ErrorCode
) -> None:
    async with failing(tmp_path) as broker:
        broker.failing.refuse(path)
        reply = broker.controller.create_topics([topic("t")], timeout_ms, validate_only=False)
        assert codes_of(await wait_for(reply)) == [code]
        await trio.sleep(5)
        led = [each.leader for each in broker.metadata.partitions("t").values()]
        assert led == ([] if code is ErrorCode.UNKNOWN_SERVER_ERROR else [0])


async def test_a_request_behind_a_blocked_store_times_out_in_time(
    tmp_path: Path, autojump_clock: trio.testing.MockClock
) -> None:
    held = trio.Event()

    async def hold(function: Callable[..., Any], *args: Any) -> Any:
        if holds:
            await held.wait()
        return function(*args)

    holds = False
    async with running(tmp_path, 0, offload=hold) as cluster:  # type: ignore[arg-type]
        controller = cluster.brokers[0].controller
        holds = True
        try:
            first = controller.create_topics([topic("first")], TIMEOUT_MS, validate_only=False)
            behind = controller.delete_topics(["unknown"], TIMEOUT_MS)
            assert codes_of(await wait_for(first)) == [ErrorCode.REQUEST_TIMED_OUT]
            assert codes_of(await wait_for(behind)) == [ErrorCode.REQUEST_TIMED_OUT]
            # The topic is created after the reply.
            held.set()
            await settle()
            assert cluster.brokers[0].metadata.contains("first")
        finally:
            held.set()
