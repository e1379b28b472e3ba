"""Leaders, followers and a controller under random schedules: what was committed is never lost.

The logs, the partitions, the controller's decisions about in-sync replicas and leaders are the real ones. What lies
between them is here, and may be slow or lost at every step: roles, fetches, requests and their answers.
"""

from collections import deque
from collections.abc import Iterator
from pathlib import Path
from tempfile import TemporaryDirectory

from hypothesis import example, given
from hypothesis import strategies as st

from ottla.broker.controller import isr_updates
from ottla.broker.controller.context import ControllerContext, PartitionPhase
from ottla.broker.controller.leader_choice import after_failure, without_replica
from ottla.broker.replicas.in_sync import InSyncReplicas
from ottla.broker.replicas.partition import Partition
from ottla.broker.replicas.watchers import ISR_PROPOSED
from ottla.log.config import LogConfig
from ottla.log.manager import LogManager
from ottla.wire.errors import ErrorCode, KafkaError
from ottla.wire.messages.alter_partition import (
    AlterPartitionRequest,
    AlterPartitionResponse,
    BrokerState,
    PartitionData,
    TopicData,
)
from ottla.wire.messages.fetch import FetchPartition
from ottla.wire.messages.leader_and_isr import LeaderAndIsrPartitionState
from ottla.wire.records.batch import RecordRules, TimestampType, iter_batches, iter_records, validate_produced
from ottla.zk.znodes import PartitionState
from tests.broker.controller.contexts import TOPIC_ID, P, context_of, revive
from tests.broker.support.hosted import NOW_MS, batch

BROKERS = (0, 1, 2)
MAX_LAG_MS = 30_000
LATEST = 3
RULES = RecordRules(False, TimestampType.CREATE_TIME, 2**62, 2**62, 1 << 20)


class World:
    """One partition with a replica on each broker."""

    def __init__(self, path: Path, min_isr: int) -> None:
        config = LogConfig.from_topic({"min.insync.replicas": str(min_isr)})
        self.now_ms = NOW_MS
        self.context: ControllerContext = context_of(BROKERS, BROKERS)
        self.managers: list[LogManager] = []
        self.partitions: dict[int, Partition] = {}
        for broker_id in BROKERS:
            directory = path / str(broker_id)
            directory.mkdir()
            manager = LogManager([directory], broker_id=broker_id, cluster_id="c", default_config=config)
            manager.load(NOW_MS)
            self.managers.append(manager)
            self.partitions[broker_id] = Partition(
                P,
                manager.get_or_create(P, TOPIC_ID, config),
                RULES,
                broker_id=broker_id,
                max_lag_ms=MAX_LAG_MS,
                high_watermark=0,
                is_alive=lambda broker_id: broker_id in self.context.brokers,
            )
        self.roles: dict[int, deque[PartitionState]] = {each: deque() for each in BROKERS}
        self.answers: deque[tuple[int, InSyncReplicas, AlterPartitionResponse]] = deque()
        self.values = iter(range(1 << 30))
        self.committed: list[bytes | None] = []
        self.watermarks: dict[tuple[int, int], int] = {}
        self._write(PartitionState(0, 0, BROKERS, self.context.epoch))

    def close(self) -> None:
        for manager in self.managers:
            manager.abandon()

    @property
    def state(self) -> PartitionState:
        return self.context.leadership[P]

    def _write(self, state: PartitionState) -> None:
        self.context.leadership[P] = state
        self.context.partition_phases[P] = PartitionPhase.ONLINE
        for broker_id in BROKERS:
            if broker_id in self.context.brokers:
                self.roles[broker_id].append(state)

    def leaders(self) -> list[Partition]:
        return [each for each in self.partitions.values() if each.is_leader]

    # Steps

    def go_on(self, broker_id: int) -> None:
        """All that a broker has to do, and what it asks for is answered."""
        while self.roles[broker_id]:
            self.take_role(broker_id)
        self.fetch(broker_id)
        self.fetch(broker_id)
        self.ask(broker_id)
        self.answer(False)

    def append(self, broker_id: int) -> None:
        for partition in self.partitions.values():
            # Of two leaders one or the other; a lone one always.
            if not partition.is_leader or (broker_id == partition.leader_id and len(self.leaders()) > 1):
                continue
            produced = validate_produced(batch(b"%d" % next(self.values)), api_version=9, rules=RULES, now_ms=NOW_MS)
            partition.append_as_leader(produced, 1, self.now_ms)

    def fetch(self, broker_id: int, *, is_lost: bool = False) -> None:
        """The follower asks whom it takes for its leader, who may be another one by now; the answer may be lost."""
        follower = self.partitions[broker_id]
        if follower.is_leader or follower.leader_id < 0:
            return
        log = follower.log
        asked = FetchPartition(
            partition=0,
            current_leader_epoch=follower.leader_epoch,
            fetch_offset=log.log_end_offset,
            last_fetched_epoch=log.leader_epochs.latest,
            log_start_offset=log.log_start_offset,
            partition_max_bytes=1 << 20,
        )
        try:
            leader = self.partitions[follower.leader_id]
            result, _ = leader.read_as_follower(broker_id, -1, asked, 1 << 20, True, self.now_ms)
        except KafkaError:
            return
        if is_lost:
            return
        if result.diverging_epoch is not None:
            epoch, end_offset = result.diverging_epoch
            own = log.end_offset_for_epoch(epoch)
            log.truncate_to(min(end_offset, own.end_offset) if own.epoch == epoch else own.end_offset)
        elif result.size:
            assert isinstance(result.records, bytes | bytearray)
            log.append_as_follower(memoryview(result.records), self.now_ms)
        follower.high_watermark = min(max(follower.high_watermark, result.high_watermark), log.log_end_offset)

    def rest(self, broker_id: int) -> None:
        """All are alive and get on, but the one; twice, for who has to truncate first."""
        for each in BROKERS * 2:
            if each != broker_id:
                self.live(each)
                self.go_on(each)

    def fetch_in_vain(self, broker_id: int) -> None:
        self.fetch(broker_id, is_lost=True)

    def heal(self) -> None:
        """All live on, and nothing is lost any more."""
        for _ in range(8):
            self.now_ms += 1_000
            for broker_id in BROKERS:
                self.live(broker_id)
                self.go_on(broker_id)
                self.shrink(broker_id)
                self.check()

    def take_role(self, broker_id: int) -> None:
        if not self.roles[broker_id]:
            return
        state = self.roles[broker_id].popleft()
        partition = self.partitions[broker_id]
        if state.leader_epoch <= partition.leader_epoch:
            return
        role = LeaderAndIsrPartitionState(
            partition_index=0,
            controller_epoch=state.controller_epoch,
            leader=state.leader,
            leader_epoch=state.leader_epoch,
            isr=state.isr,
            partition_epoch=state.version,
            replicas=BROKERS,
        )
        if state.leader == broker_id:
            partition.make_leader(role, self.now_ms)
        else:
            partition.make_follower(role)

    def ask(self, broker_id: int) -> None:
        """A leader asks the controller for what it has proposed; it may ask again before it is answered."""
        partition = self.partitions[broker_id]
        proposed = partition.in_sync.proposed
        if not partition.is_leader or proposed is None:
            return
        data = PartitionData(
            partition_index=0,
            leader_epoch=partition.leader_epoch,
            new_isr_with_epochs=[BrokerState(broker_id=each) for each in BROKERS if each in proposed],
            partition_epoch=partition.partition_epoch,
        )
        request = AlterPartitionRequest(
            broker_id=broker_id, topics=[TopicData(topic_name="t", topic_id=TOPIC_ID, partitions=[data])]
        )
        outcomes: dict[object, isr_updates.Outcome] = {}
        for key, update in isr_updates.updates(self.context, request, LATEST).items():
            outcomes[key] = update.outcome
            if update.write is not None:
                written = update.write.state._replace(version=self.state.version + 1)
                self.context.leadership[P] = outcomes[key] = written
        response = isr_updates.response(self.context, request, LATEST, outcomes)  # type: ignore[arg-type]
        self.answers.append((broker_id, partition.in_sync, response))

    def answer(self, is_lost: bool) -> None:
        if not self.answers:
            return
        broker_id, asked, response = self.answers.popleft()
        partition = self.partitions[broker_id]
        if is_lost or partition.in_sync is not asked or not partition.is_leader:
            return
        (result,) = response.topics[0].partitions
        if result.error_code == ErrorCode.NONE:
            partition.isr_changed(result.isr, result.partition_epoch, self.now_ms)
        elif result.error_code in (ErrorCode.OPERATION_NOT_ATTEMPTED, ErrorCode.INELIGIBLE_REPLICA):
            partition.isr_unchanged()

    def shrink(self, broker_id: int) -> None:
        partition = self.partitions[broker_id]
        if partition.shrink_isr(self.now_ms) & ISR_PROPOSED:
            assert partition.is_leader

    def die(self, broker_id: int) -> None:
        """The controller sees it go; the broker itself may not know, and lead on."""
        if broker_id not in self.context.brokers:
            return
        del self.context.brokers[broker_id]
        self.roles[broker_id].clear()
        state = self.state
        if state.leader == broker_id:
            state = after_failure(self.context, P, state, allow_unclean=False) or without_replica(
                self.context, state, broker_id
            )
        elif broker_id in state.isr:
            state = without_replica(self.context, state, broker_id)
        else:
            return
        self._write(state._replace(version=self.state.version + 1))

    def live(self, broker_id: int) -> None:
        if broker_id in self.context.brokers:
            return
        revive(self.context, broker_id)
        state = self.state
        if state.leader < 0:
            elected = after_failure(self.context, P, state, allow_unclean=False)
            if elected is not None:
                self._write(elected._replace(version=state.version + 1))
                return
        self.roles[broker_id].append(state)

    # What must hold

    def check(self) -> None:
        for broker_id, partition in self.partitions.items():
            if partition.is_leader:
                key = (broker_id, partition.leader_epoch)
                assert partition.high_watermark >= self.watermarks.get(key, 0)
                self.watermarks[key] = partition.high_watermark
                seen = list(values(partition))[: partition.high_watermark]
                shared = min(len(seen), len(self.committed))
                assert seen[:shared] == self.committed[:shared], "two leaders committed different records"
                self.committed += seen[shared:]
        leaders = [each.leader_epoch for each in self.partitions.values() if each.is_leader]
        assert len(leaders) == len(set(leaders)), "two leaders share an epoch"
        for member in self.state.isr:
            have = list(values(self.partitions[member]))[: len(self.committed)]
            assert have == self.committed, f"broker {member} could be elected and lacks what is committed"


def values(partition: Partition) -> Iterator[bytes | None]:
    log = partition.log
    if log.log_end_offset:
        records = log.read(0, 1 << 20, log.log_end_offset, True)
        assert isinstance(records, bytes | bytearray)
        for _, found in iter_batches(memoryview(records)):
            yield from (record.value for record in iter_records(found))


brokers = st.sampled_from(BROKERS)
often = ["append", "fetch", "go_on", "live"]
now_and_then = ["rest", "take_role", "fetch_in_vain", "ask", "shrink", "die"]
steps = st.one_of(
    st.tuples(st.sampled_from([*often, *often, *now_and_then]), brokers),
    st.tuples(st.just("answer"), st.booleans()),
    st.tuples(st.just("wait"), st.sampled_from([1_000, 20_000, 40_000])),
)


# Nothing shorter than these shows that the rule is needed.
ALONE = [("die", 1), ("die", 2), ("take_role", 0), ("take_role", 0), ("append", 0), ("live", 1), ("take_role", 1)]
JOINS_WITHOUT_WHAT_IS_COMMITTED = [*ALONE, ("fetch_in_vain", 1), ("ask", 0)]
WATERMARK_LEAVES_WHO_JOINS_BEHIND = [*ALONE, ("fetch", 1), ("fetch", 1), ("ask", 0), ("wait", 40_000), ("append", 0)]
JOINS_A_LEADER_THAT_DOES_NOT_KNOW_WHAT_IS_COMMITTED = [
    *[("die", 2), ("take_role", 0), ("take_role", 1), ("append", 0), ("fetch", 1), ("fetch_in_vain", 1), ("die", 0)],
    *[("take_role", 1), ("live", 2), ("take_role", 2), ("fetch_in_vain", 2), ("ask", 1)],
]


@example(schedule=JOINS_WITHOUT_WHAT_IS_COMMITTED, min_isr=1)
@example(schedule=WATERMARK_LEAVES_WHO_JOINS_BEHIND, min_isr=1)
@example(schedule=JOINS_A_LEADER_THAT_DOES_NOT_KNOW_WHAT_IS_COMMITTED, min_isr=2)
@given(schedule=st.lists(steps, min_size=20, max_size=80), min_isr=st.sampled_from([1, 2]))
def test_no_schedule_loses_committed_records_and_all_replicas_are_in_sync_in_the_end(
    schedule: list[tuple[str, int]], min_isr: int
) -> None:
    with TemporaryDirectory() as directory:
        world = World(Path(directory), min_isr)
        try:
            for broker_id in BROKERS:
                world.take_role(broker_id)
            for what, which in schedule:
                if what == "wait":
                    world.now_ms += which
                else:
                    getattr(world, what)(which)
                world.check()
            world.heal()
            assert set(world.state.isr) == set(BROKERS)
            leader = world.partitions[world.state.leader]
            assert leader.in_sync == InSyncReplicas(BROKERS)
            assert leader.high_watermark == leader.log.log_end_offset
        finally:
            world.close()
