"""Preferred leaders lead again, without a request."""

from pathlib import Path
from typing import Any

import pytest
import trio
from trio.testing import MockClock

from ottla.wire.messages.alter_partition import AlterPartitionRequest, BrokerState, PartitionData, TopicData
from ottla.wire.types import TopicPartition
from ottla.zk.znodes import PartitionState, partition_state_path
from tests.broker.controller.cluster import LONG_MS, Cluster, assigned_topic, running, settle, wait_for

P = TopicPartition("t", 0)


async def led_elsewhere(cluster: Cluster) -> None:
    """Make broker 0 lead, though broker 1 is preferred."""
    creation = cluster.brokers[0].controller.create_topics([assigned_topic("t", (1, 0))], LONG_MS, validate_only=False)
    await wait_for(creation)
    await cluster.kill_broker(1)
    await cluster.start_broker(1)
    await settle()
    state = await state_of(cluster)
    assert state.leader == 0
    caught_up = PartitionData(
        partition_index=0,
        leader_epoch=state.leader_epoch,
        new_isr_with_epochs=[BrokerState(broker_id=0), BrokerState(broker_id=1)],
        partition_epoch=state.version,
    )
    request = AlterPartitionRequest(
        broker_id=0,
        broker_epoch=cluster.brokers[0].epoch,
        topics=[TopicData(topic_id=cluster.brokers[0].metadata.topic_id("t"), partitions=[caught_up])],
    )
    await wait_for(cluster.brokers[0].controller.ask(request, 3))
    assert (await state_of(cluster)).isr == (0, 1)


async def state_of(cluster: Cluster) -> PartitionState:
    tool = cluster.store.session(lambda event: None)
    data, stat = await tool.get(partition_state_path(P))
    return PartitionState.decode(data, stat.version)


async def test_the_controller_rebalances_soon_after_its_election(tmp_path: Path, autojump_clock: MockClock) -> None:
    async with running(tmp_path, 0, 1) as cluster:
        await led_elsewhere(cluster)
        await trio.sleep(4)
        assert (await state_of(cluster)).leader == 0
        await trio.sleep(2)
        assert (await state_of(cluster)).leader == 1
        assert cluster.brokers[1].replicas.partition("t", 0).is_leader


async def test_the_controller_rebalances_periodically(tmp_path: Path, autojump_clock: MockClock) -> None:
    async with running(tmp_path, 0, 1, leader_imbalance_check_interval_seconds="60") as cluster:
        await trio.sleep(6)
        await led_elsewhere(cluster)
        await trio.sleep(50)
        assert (await state_of(cluster)).leader == 0
        await trio.sleep(10)
        assert (await state_of(cluster)).leader == 1


async def test_a_former_controller_does_not_rebalance(tmp_path: Path, autojump_clock: MockClock) -> None:
    async with running(tmp_path, 0, 1) as cluster:
        await led_elsewhere(cluster)
        await cluster.store.session(lambda event: None).delete("/controller")
        await settle()
        await trio.sleep(6)
        assert (await state_of(cluster)).leader == 1
        assert (await state_of(cluster)).controller_epoch == 2


@pytest.mark.parametrize(
    "configs", [{"auto_leader_rebalance_enable": "false"}, {"leader_imbalance_per_broker_percentage": "100"}]
)
async def test_no_leader_moves_if_the_configuration_forbids_it(
    tmp_path: Path, autojump_clock: MockClock, configs: dict[str, Any]
) -> None:
    async with running(tmp_path, 0, 1, **configs) as cluster:
        await led_elsewhere(cluster)
        await trio.sleep(1000)
        assert (await state_of(cluster)).leader == 0
