"""A coordinator over a log in memory."""

from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

import trio

from ottla.broker.loop.clock import Clock
from ottla.coordinator.config import GroupConfig
from ottla.coordinator.effects import Caller, Producer, Record
from ottla.coordinator.group_coordinator import GroupCoordinator
from ottla.wire.errors import ErrorCode
from ottla.wire.messages.describe_groups import DescribeGroupsRequest
from ottla.wire.messages.heartbeat import HeartbeatRequest
from ottla.wire.messages.join_group import JoinGroupRequest, JoinGroupRequestProtocol
from ottla.wire.messages.offset_commit import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
)
from ottla.wire.messages.offset_fetch import (
    OffsetFetchRequest,
    OffsetFetchRequestGroup,
    OffsetFetchRequestTopics,
)
from ottla.wire.messages.sync_group import SyncGroupRequest, SyncGroupRequestAssignment
from ottla.wire.messages.txn_offset_commit import (
    TxnOffsetCommitRequest,
    TxnOffsetCommitRequestPartition,
    TxnOffsetCommitRequestTopic,
)
from tests.coordinator.coordinating import Answer

START_MS = 1_700_000_000_000
SESSION_MS = 10_000
EPOCH = 3
NO_DELAY = GroupConfig(initial_rebalance_delay_ms=0)


class Log:
    """One list of records. Appends are committed at once, unless they are held or fail."""

    def __init__(self) -> None:
        self.records: list[Record] = []
        self.producers: list[Producer | None] = []
        self.error = ErrorCode.NONE
        self.held: list[Callable[[], None]] | None = None

    def append(
        self,
        _partition: int,
        records: Sequence[Record],
        done: Callable[[ErrorCode], None],
        producer: Producer | None = None,
    ) -> None:
        def finish() -> None:
            if not self.error:
                self.records.extend(records)
                self.producers.append(producer)
            done(self.error)

        if self.held is None:
            finish()
        else:
            self.held.append(finish)


class Broker:
    """A broker as far as its coordinator goes."""

    def __init__(self, config: GroupConfig = NO_DELAY, partitions: int = 1) -> None:
        self.partitions: int | None = partitions
        self.log = Log()
        self.clock = Clock()
        self.ids = 0
        self.coordinator = GroupCoordinator(
            self.log,
            config,
            now_ms=lambda: START_MS + round(trio.current_time() * 1000),
            call_later=self.clock.call_later,
            partition_count=lambda: self.partitions,
            new_member_id=self.new_member_id,
        )

    async def start(self, nursery: trio.Nursery) -> None:
        """Run the timers and the expiry of offsets."""
        nursery.start_soon(self.clock.run)
        nursery.start_soon(self.coordinator.run)

    def serves(self) -> bool:
        """Whether groups are served."""
        return self.heartbeat("nobody", 1) == ErrorCode.UNKNOWN_MEMBER_ID

    def new_member_id(self, prefix: str) -> str:
        self.ids += 1
        return f"{prefix}-{self.ids}"

    def ask(self, method: Callable[..., None], request: Any) -> Answer:
        answer = Answer()
        method(request, answer)
        return answer

    def lead(self, partition: int = 0, epoch: int = EPOCH, records: Sequence[Record] = ()) -> None:
        runtime = self.coordinator.runtime
        assert runtime.begin_loading(partition, epoch)
        for offset, (key, value) in enumerate(records):
            runtime.replay(partition, epoch, key, value, offset)
        runtime.loaded(partition, epoch)

    def join(self, member_id: str = "", group: str = "g", version: int = 9, instance: str | None = None) -> Answer:
        request = JoinGroupRequest(
            group_id=group,
            session_timeout_ms=SESSION_MS,
            rebalance_timeout_ms=60_000,
            member_id=member_id,
            group_instance_id=instance,
            protocol_type="consumer",
            protocols=[JoinGroupRequestProtocol(name="range", metadata=b"meta")],
        )
        return self.ask(partial(self.coordinator.join_group, Caller("client", "/127.0.0.1", version)), request)

    def sync(self, member_id: str, generation: int, group: str = "g", *, leads: bool = True) -> Answer:
        assignments = [SyncGroupRequestAssignment(member_id=member_id, assignment=b"all")] if leads else []
        request = SyncGroupRequest(
            group_id=group, generation_id=generation, member_id=member_id, assignments=assignments
        )
        return self.ask(self.coordinator.sync_group, request)

    def heartbeat(self, member_id: str, generation: int, group: str = "g") -> ErrorCode:
        request = HeartbeatRequest(group_id=group, generation_id=generation, member_id=member_id)
        return ErrorCode(self.coordinator.heartbeat(request).error_code)

    def commit(self, offset: int, group: str = "g", topic: str = "t", member: tuple[str, int] = ("", -1)) -> Answer:
        partition = OffsetCommitRequestPartition(
            partition_index=0, committed_offset=offset, committed_metadata=None, committed_leader_epoch=4
        )
        request = OffsetCommitRequest(
            group_id=group,
            member_id=member[0],
            generation_id_or_member_epoch=member[1],
            topics=[OffsetCommitRequestTopic(name=topic, partitions=[partition])],
        )
        return self.ask(self.coordinator.offset_commit, request)

    def txn_commit(
        self, offset: int, group: str = "g", version: int = 5, producer: int = 1, member: tuple[str, int] = ("", -1)
    ) -> Answer:
        partition = TxnOffsetCommitRequestPartition(
            partition_index=0, committed_offset=offset, committed_leader_epoch=4, committed_metadata="text"
        )
        request = TxnOffsetCommitRequest(
            transactional_id="tx",
            group_id=group,
            producer_id=producer,
            producer_epoch=2,
            member_id=member[0],
            generation_id_or_member_epoch=member[1],
            topics=[TxnOffsetCommitRequestTopic(name="t", partitions=[partition])],
        )
        answer = Answer()
        self.coordinator.txn_offset_commit(request, version, answer)
        return answer

    def committed(self, group: str = "g", topic: str = "t") -> int:
        asked = OffsetFetchRequestTopics(name=topic, partition_indexes=[0])
        request = OffsetFetchRequest(groups=[OffsetFetchRequestGroup(group_id=group, topics=[asked])])
        (answer,) = self.coordinator.offset_fetch(request, 9).groups
        assert answer.error_code == ErrorCode.NONE
        return int(answer.topics[0].partitions[0].committed_offset)

    def state(self, group: str = "g") -> str:
        request = DescribeGroupsRequest(groups=[group])
        (described,) = self.coordinator.describe_groups(request).groups
        assert described.error_code == ErrorCode.NONE
        return str(described.group_state)

    async def member(self, group: str = "g") -> str:
        """Make a group of one member. Returns its id."""
        answer = self.join(self.join(group=group).response.member_id, group)
        await trio.sleep(0.001)
        member_id = str(answer.response.member_id)
        assert self.sync(member_id, answer.response.generation_id, group).error == ErrorCode.NONE
        return member_id


def refused_commit(answer: Answer) -> ErrorCode:
    return ErrorCode(answer.response.topics[0].partitions[0].error_code)
