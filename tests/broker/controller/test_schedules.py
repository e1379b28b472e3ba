"""Controllers under schedules of events: the leader, epoch and in-sync replicas of a partition.

A schedule is a text, with one line for simultaneous events; those of Hypothesis look like those written by hand. The
store's own writer notes every state that any controller writes, even one that fails meanwhile.
"""

from collections.abc import Callable, Sequence
from functools import partial
from itertools import pairwise
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TypeVar, TypeVarTuple, cast

import pytest
import trio
from hypothesis import given
from hypothesis import strategies as st

from ottla.wire.messages.alter_partition import AlterPartitionRequest, BrokerState, PartitionData, TopicData
from ottla.wire.messages.controlled_shutdown import ControlledShutdownRequest
from ottla.wire.types import TopicPartition
from ottla.zk.journal import Journal, Row
from ottla.zk.znodes import NO_LEADER, RECOVERING, PartitionState, partition_state_path
from tests.broker.controller.cluster import LONG_MS, Cluster, assigned_topic, running, settle
from tests.zk.stores import inline

pytestmark = pytest.mark.once

P = TopicPartition("t", 0)
BROKERS = (0, 1, 2)
T = TypeVar("T")
Ts = TypeVarTuple("Ts")


class Play:
    """A cluster that plays a schedule, and all states of its one partition."""

    def __init__(self, cluster: Cluster, states: Sequence[PartitionState]) -> None:
        self.cluster = cluster
        self.states = states

    async def line(self, line: str) -> None:
        """Play the possible events of a line at once."""
        touched: set[int] = set()
        async with trio.open_nursery() as nursery:
            for deed in line.split(" & "):
                verb, *texts = deed.split()
                numbers = tuple(map(int, texts))
                if verb in ("start", "kill", "leave"):
                    (broker_id,) = numbers
                    if broker_id in touched or (verb == "start") == (broker_id in self.cluster.brokers):
                        continue
                    touched.add(broker_id)
                self._begin(nursery, verb, numbers)
        await settle()

    def _begin(self, nursery: trio.Nursery, verb: str, numbers: tuple[int, ...]) -> None:
        match verb:
            case "start":
                nursery.start_soon(self.cluster.start_broker, numbers[0])
            case "kill":
                nursery.start_soon(self.cluster.kill_broker, numbers[0])
            case "leave":
                nursery.start_soon(self._leave, numbers[0])
            case "sync":
                self._change_isr(numbers)
            case _:
                self._ask_controller(verb, numbers)

    def _ask_controller(self, verb: str, numbers: tuple[int, ...]) -> None:
        for broker in self.cluster.brokers.values():
            if broker.controller.is_active:
                if verb in ("prefer", "unclean"):
                    broker.controller.elect_leaders([P], LONG_MS, unclean=verb == "unclean")
                elif verb in ("move", "cancel"):
                    broker.controller.reassign({P: numbers if verb == "move" else None})
                else:
                    raise ValueError(verb)

    def _change_isr(self, isr: tuple[int, ...]) -> None:
        """Each broker that believes it leads sends a request to each that believes it is the controller."""
        for broker in self.cluster.brokers.values():
            known = broker.metadata.partition(*P)
            if known is None or known.leader != broker.broker_id or known.leader not in isr:
                continue
            asked = PartitionData(
                partition_index=0,
                leader_epoch=known.leader_epoch,
                partition_epoch=known.partition_epoch,
                new_isr_with_epochs=[BrokerState(broker_id=each) for each in isr],
            )
            topic = TopicData(topic_id=broker.metadata.topic_id("t"), partitions=[asked])
            request = AlterPartitionRequest(broker_id=known.leader, broker_epoch=broker.epoch, topics=[topic])
            for controller in self.cluster.brokers.values():
                if controller.controller.is_active:
                    controller.controller.ask(request, 3)

    async def _leave(self, broker_id: int) -> None:
        request = ControlledShutdownRequest(broker_id=broker_id, broker_epoch=self.cluster.brokers[broker_id].epoch)
        for broker in self.cluster.brokers.values():
            if broker.controller.is_active:
                broker.controller.ask(request, 3)
        await settle()
        await self.cluster.kill_broker(broker_id)


async def play(lines: Sequence[str], after_each: Callable[[Play], None] = lambda _: None) -> Sequence[PartitionState]:
    """Play the lines with partition t-0 on brokers 0, 1 and 2, then start offline brokers; return all states."""
    states: list[PartitionState] = []

    async def write(function: Callable[[*Ts], T], *args: *Ts) -> T:
        result = await inline(function, *args)
        # A commit that has begun is done, even if its broker dies.
        if getattr(function, "__func__", None) is Journal.commit:
            changed, *_ = cast(tuple[Sequence[Row], Sequence[str], int], args)
            for path, data, *_ in changed:
                if path == partition_state_path(P):
                    states.append(PartitionState.decode(data, len(states)))
        return result

    with TemporaryDirectory() as folder:
        async with running(Path(folder), *BROKERS, offload=write, auto_leader_rebalance_enable="false") as cluster:
            cluster.brokers[0].controller.create_topics([assigned_topic("t", BROKERS)], LONG_MS, validate_only=False)
            await settle()
            players = Play(cluster, states)
            for line in lines:
                await players.line(line)
                after_each(players)
            for broker_id in BROKERS:
                await players.line(f"start {broker_id}")
            for broker in cluster.brokers.values():
                known = broker.metadata.partition(*P)
                assert known is not None
                assert (known.leader, known.leader_epoch) == (states[-1].leader, states[-1].leader_epoch)
    return states


def check(states: Sequence[PartitionState], *, may_be_unclean: bool) -> None:
    """Check the invariants of any schedule."""
    assert states[-1].leader != NO_LEADER
    for before, after in pairwise(states):
        assert after.isr
        assert after.controller_epoch >= before.controller_epoch
        if after.leader_epoch == before.leader_epoch:
            assert after.leader == before.leader
        else:
            assert after.leader_epoch == before.leader_epoch + 1
            if after.recovery_state == RECOVERING and not set(after.isr) <= set(before.isr):
                assert may_be_unclean
                assert after.isr == (after.leader,)
            else:
                assert set(after.isr) <= set(before.isr)
        assert after.leader == NO_LEADER or after.leader in after.isr


some_broker = st.sampled_from(BROKERS)
some_brokers = st.lists(some_broker, min_size=1, max_size=3, unique=True).map(lambda ids: " ".join(map(str, ids)))
clean_deeds = st.one_of(
    *(some_broker.map(f"{verb} {{}}".format) for verb in ("kill", "start", "leave", "start")),
    *(some_brokers.map(f"{verb} {{}}".format) for verb in ("sync", "sync", "move")),
    st.sampled_from(("prefer", "cancel")),
)


def schedules(deeds: st.SearchStrategy[str]) -> st.SearchStrategy[list[str]]:
    lines = st.lists(deeds, min_size=1, max_size=3).map(" & ".join)
    return st.lists(lines, min_size=1, max_size=12)


@given(schedules(clean_deeds))
def test_no_schedule_elects_a_leader_outside_the_isr_or_two_in_one_epoch(lines: list[str]) -> None:
    check(trio.run(partial(play, lines)), may_be_unclean=False)


@given(schedules(clean_deeds | st.just("unclean")))
def test_a_leader_of_an_unclean_election_is_alone_in_the_isr_and_recovers(lines: list[str]) -> None:
    check(trio.run(partial(play, lines)), may_be_unclean=True)


# The events | leader, in-sync replicas, epoch. Broker 0 is the controller first. After it failed, the next controller
# first removes it from the in-sync replicas, and elects after that, in another epoch. Each replica that leaves takes
# one more epoch.
SCRIPTS = {
    "followers go and come back": """
        kill 2          | 0 of 0 1, epoch 1
        start 2         | 0 of 0 1, epoch 1
        sync 0 1 2      | 0 of 0 1 2, epoch 1
        leave 1         | 0 of 0 2, epoch 2
    """,
    "leaders go and prefer to come back": """
        kill 0          | 1 of 1 2, epoch 2
        start 0         | 1 of 1 2, epoch 2
        prefer          | 1 of 1 2, epoch 2
        sync 0 1 2      | 1 of 0 1 2, epoch 2
        prefer          | 0 of 0 1 2, epoch 3
        leave 0         | 1 of 1 2, epoch 4
    """,
    "the last one in sync is waited for": """
        sync 0          | 0 of 0, epoch 0
        kill 0          | -1 of 0, epoch 1
        kill 1 & kill 2 | -1 of 0, epoch 1
        start 1         | -1 of 0, epoch 2
        start 0         | 0 of 0, epoch 3
    """,
    "or not": """
        sync 0          | 0 of 0, epoch 0
        kill 0          | -1 of 0, epoch 1
        unclean         | 1 of 1, epoch 2
        start 0         | 1 of 1, epoch 2
        sync 1 2 0      | 1 of 1 2 0, epoch 2
    """,
    "replicas move": """
        move 1          | 1 of 1, epoch 3
        move 1 2        | 1 of 1, epoch 4
        move 2 0        | 1 of 1, epoch 5
        kill 1          | -1 of 1, epoch 6
        start 1         | 1 of 1, epoch 7
        cancel          | 1 of 1, epoch 8
    """,
}


@pytest.mark.parametrize("script", SCRIPTS.values(), ids=SCRIPTS)
async def test_a_schedule_written_by_hand_has_the_expected_leaders(script: str) -> None:
    steps = [line.split("|") for line in script.strip().splitlines()]
    expected = [outcome.strip() for _, outcome in steps]
    found = []

    def note(players: Play) -> None:
        leader, epoch, isr, *_ = players.states[-1]
        found.append(f"{leader} of {' '.join(map(str, isr))}, epoch {epoch}")

    await play([deed.strip() for deed, _ in steps], note)
    assert found == expected
