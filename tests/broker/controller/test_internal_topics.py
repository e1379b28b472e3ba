"""The topics of offsets and of transactions are created when they are needed, as the broker's keys say."""

import json
from pathlib import Path

import pytest

from ottla.wire.errors import ErrorCode
from tests.broker.controller.cluster import running, settle


async def test_the_topic_of_committed_offsets_is_created_with_the_brokers_configs(tmp_path: Path) -> None:
    async with running(tmp_path, 0, 1, offsets_topic_num_partitions="5", offsets_topic_segment_bytes="1000") as cluster:
        await settle()
        asked = cluster.brokers[1]
        assert asked.controller.auto_create(["__consumer_offsets"]) == {
            "__consumer_offsets": ErrorCode.LEADER_NOT_AVAILABLE
        }
        await settle()
        # Without ZooKeeper the topic has no more replicas than there are brokers.
        partitions = asked.metadata.partitions("__consumer_offsets")
        assert [sorted(each.replicas) for each in partitions.values()] == [[0, 1]] * 5
        assert json.loads(await cluster.data("/config/topics/__consumer_offsets") or b"")["config"] == {
            "cleanup.policy": "compact",
            "compression.type": "producer",
            "segment.bytes": "1000",
        }


async def test_the_topic_of_committed_offsets_is_created_when_there_are_brokers_for_all_its_replicas(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    async with running(tmp_path, 0, 1, zookeeper_connect="some", offsets_topic_num_partitions="5") as cluster:
        await settle()
        for each in (0, 0, 1):
            answers = cluster.brokers[each].controller.auto_create(["__consumer_offsets"])
            assert answers == {"__consumer_offsets": ErrorCode.INVALID_REPLICATION_FACTOR}
        await settle()
        assert not cluster.brokers[0].metadata.contains("__consumer_offsets")
        # Clients ask repeatedly; each broker logs it once.
        refused = "Topic '__consumer_offsets' cannot be created: "
        refused += "Replication factor: 3 larger than available brokers: 2."
        assert [each.getMessage() for each in caplog.records].count(refused) == 2
        third = await cluster.start_broker(2)
        await settle()
        assert third.controller.auto_create(["__consumer_offsets"]) == {
            "__consumer_offsets": ErrorCode.LEADER_NOT_AVAILABLE
        }
        await settle()
        partitions = third.metadata.partitions("__consumer_offsets")
        assert [sorted(each.replicas) for each in partitions.values()] == [[0, 1, 2]] * 5


async def test_the_topic_of_transactions_is_created_with_the_brokers_configs(tmp_path: Path) -> None:
    async with running(
        tmp_path, 0, 1, transaction_state_log_num_partitions="5", transaction_state_log_segment_bytes="1000"
    ) as cluster:
        await settle()
        asked = cluster.brokers[1]
        assert asked.controller.auto_create(["__transaction_state"]) == {
            "__transaction_state": ErrorCode.LEADER_NOT_AVAILABLE
        }
        await settle()
        partitions = asked.metadata.partitions("__transaction_state")
        assert [sorted(each.replicas) for each in partitions.values()] == [[0, 1]] * 5
        assert json.loads(await cluster.data("/config/topics/__transaction_state") or b"")["config"] == {
            "cleanup.policy": "compact",
            "compression.type": "uncompressed",
            "min.insync.replicas": "2",
            "segment.bytes": "1000",
            "unclean.leader.election.enable": "false",
        }
