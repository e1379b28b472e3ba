"""Notifications of changed configs, written by tools."""

from pathlib import Path

import pytest

from ottla.broker.cluster.broker_configs import BrokerConfigs
from ottla.broker.cluster.config_notifications import ConfigChanges
from ottla.broker.loop.clock import Clock
from ottla.zk.store import StoreError
from ottla.zk.znodes import (
    CONFIG_CHANGES,
    broker_config_path,
    encode_config,
    encode_config_change,
    topic_config_path,
)
from tests.broker.controller.cluster import LONG_MS, NOW_MS, Broker, running, settle, topic, wait_for

NOTIFICATION = f"{CONFIG_CHANGES}/config_change_"


async def create(broker: Broker, name: str) -> None:
    await wait_for(broker.controller.create_topics([topic(name)], LONG_MS, validate_only=False))


@pytest.mark.parametrize(
    "data",
    [b'{"version":2,"entity_path":"topics/t"}', b'{"version":1,"entity_type":"topics","entity_name":"t"}'],
)
async def test_a_topic_config_written_by_a_tool_is_in_effect_after_its_notification(
    tmp_path: Path, data: bytes
) -> None:
    async with running(tmp_path, 0) as cluster:
        broker = cluster.brokers[0]
        await create(broker, "t")
        tool = cluster.store.session(lambda event: None)
        await tool.set(topic_config_path("t"), encode_config({"retention.ms": "5"}))
        await settle()
        partition = broker.replicas.partition("t", 0)
        assert partition.log.config.values["retention.ms"] != 5
        await tool.create(NOTIFICATION, data, sequential=True)
        await settle()
        assert partition.log.config.values["retention.ms"] == 5


async def test_unreadable_and_foreign_notifications_are_passed_over(tmp_path: Path) -> None:
    async with running(tmp_path, 0) as cluster:
        broker = cluster.brokers[0]
        await create(broker, "t")
        tool = cluster.store.session(lambda event: None)
        await tool.set(topic_config_path("t"), encode_config({"retention.ms": "5"}))
        await tool.create(f"{CONFIG_CHANGES}/something_else")
        for data in (b"", b"nonsense", b"[]", b'{"version":2,"entity_path":"users/t"}'):
            await tool.create(NOTIFICATION, data, sequential=True)
        await tool.create(NOTIFICATION, b'{"version":2,"entity_path":"topics/gone"}', sequential=True)
        await tool.create(NOTIFICATION, b'{"version":2,"entity_path":"topics/t"}', sequential=True)
        await settle()
        assert broker.topic_configs.get("t") == {"retention.ms": "5"}
        assert broker.topic_configs.missing(["gone"]) == ["gone"]


async def test_old_notifications_are_deleted_and_young_ones_stay(tmp_path: Path) -> None:
    async with running(tmp_path, 0) as cluster:
        broker = cluster.brokers[0]
        session = cluster.store.session(lambda event: None)
        await session.create(NOTIFICATION, b"{}", sequential=True)
        for minutes, left in ((15, 1), (16, 0)):
            later = Clock(lambda minutes=minutes: NOW_MS / 1000 + minutes * 60)  # type: ignore[misc]
            configs = BrokerConfigs(session, broker.broker_id, broker.dynamic)
            await ConfigChanges(session, later, broker.topic_configs, configs, broker.replicas.reconfigure).catch_up()
            assert len(await session.children(CONFIG_CHANGES)) == left


async def test_a_topic_that_is_created_again_does_not_have_its_old_configs(tmp_path: Path) -> None:
    async with running(tmp_path, 0) as cluster:
        broker = cluster.brokers[0]
        await create(broker, "t")
        tool = cluster.store.session(lambda event: None)
        await tool.set(topic_config_path("t"), encode_config({"retention.ms": "5"}))
        await tool.create(NOTIFICATION, b'{"version":2,"entity_path":"topics/t"}', sequential=True)
        await settle()
        await wait_for(broker.controller.delete_topics(["t"], LONG_MS))
        with pytest.raises(StoreError):
            await tool.get(topic_config_path("t"))
        await create(broker, "t")
        assert broker.replicas.partition("t", 0).log.config.values["retention.ms"] != 5


async def test_unreadable_configs_of_a_topic_count_as_none(tmp_path: Path) -> None:
    async with running(tmp_path, 0) as cluster:
        broker = cluster.brokers[0]
        await create(broker, "t")
        tool = cluster.store.session(lambda event: None)
        for data, kept in ((encode_config({"retention.ms": "5"}), {"retention.ms": "5"}), (b"nonsense", {})):
            await tool.set(topic_config_path("t"), data)
            await tool.create(NOTIFICATION, b'{"version":2,"entity_path":"topics/t"}', sequential=True)
            await settle()
            assert broker.topic_configs.get("t") == kept


async def test_a_broker_config_written_by_a_tool_is_in_effect_after_its_notification(
    tmp_path: Path,
) -> None:
    async with running(tmp_path, 0) as cluster:
        broker = cluster.brokers[0]
        await create(broker, "t")
        tool = cluster.store.session(lambda event: None)
        log = broker.replicas.partition("t", 0).log
        for entity, retention_ms in (("<default>", 5), ("0", 6)):
            data = encode_config({"log.retention.ms": str(retention_ms)})
            await tool.create(broker_config_path(entity), data)
            await settle()
            assert log.config.values["retention.ms"] != retention_ms
            await tool.create(NOTIFICATION, encode_config_change(f"brokers/{entity}"), sequential=True)
            await settle()
            assert log.config.values["retention.ms"] == retention_ms


async def test_the_configs_of_another_broker_are_ignored(tmp_path: Path) -> None:
    async with running(tmp_path, 0) as cluster:
        tool = cluster.store.session(lambda event: None)
        await tool.create(broker_config_path("1"), encode_config({"log.retention.ms": "5"}))
        await tool.create(NOTIFICATION, encode_config_change("brokers/1"), sequential=True)
        await settle()
        assert cluster.brokers[0].dynamic.own == {}


async def test_unreadable_configs_of_a_broker_count_as_none(tmp_path: Path) -> None:
    async with running(tmp_path, 0) as cluster:
        broker = cluster.brokers[0]
        tool = cluster.store.session(lambda event: None)
        await tool.create(broker_config_path("0"), b"")
        for data, kept in ((encode_config({"log.retention.ms": "5"}), {"log.retention.ms": "5"}), (b"nonsense", {})):
            await tool.set(broker_config_path("0"), data)
            await tool.create(NOTIFICATION, encode_config_change("brokers/0"), sequential=True)
            await settle()
            assert broker.dynamic.own == kept
