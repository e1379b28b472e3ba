"""Notifications of changed configs: the broker reads the changed configs and uses them.

Owns which notifications were handled, and deletes old ones. Must not know who changes configs, nor what any config
means. Counterparts in Kafka: ZkConfigManager, ZkNodeChangeNotificationListener, ConfigHandler.

Every broker watches /config/changes. A broker or tool that changes configs writes them first, then adds a numbered
znode there that names their topic or broker.
"""

import logging
import re
from collections.abc import Callable
from typing import Final

import trio

from ottla.broker.cluster.broker_configs import BrokerConfigs
from ottla.broker.cluster.topic_configs import TopicConfigs
from ottla.broker.cluster.unreadable_znodes import read_or_pass_over
from ottla.broker.loop.clock import Clock
from ottla.zk.store import EventType, NoNodeError, Session, StoreError, WatchEvent
from ottla.zk.znodes import CONFIG_CHANGE_PREFIX, CONFIG_CHANGES, decode_config_change

logger = logging.getLogger("kafka.server.ZkConfigManager")

_EXPIRES_AFTER_MS: Final = 15 * 60 * 1000
_RETRY_AFTER_SECONDS: Final = 0.1
_CHANGE: Final = re.compile(rf"{CONFIG_CHANGE_PREFIX}([0-9]{{1,10}})")
_TOPICS: Final = "topics/"
_BROKERS: Final = "brokers/"


class ConfigChanges:
    """Handles the notifications at one broker."""

    def __init__(
        self,
        session: Session,
        clock: Clock,
        topic_configs: TopicConfigs,
        broker_configs: BrokerConfigs,
        changed: Callable[[str], None],
    ) -> None:
        """`changed(topic)` is called for each topic whose configs changed."""
        self._session = session
        self._clock = clock
        self._topic_configs = topic_configs
        self._broker_configs = broker_configs
        self._changed = changed
        self._last = -1
        self._wake = trio.Event()
        self._turn = trio.Lock()

    def on_store_event(self, event: WatchEvent) -> None:
        """Handle an event of the session."""
        if event.path == CONFIG_CHANGES or event.type is EventType.BEGUN:
            self._wake.set()

    async def run(self, task_status: trio.TaskStatus[None] = trio.TASK_STATUS_IGNORED) -> None:
        """Handle all notifications until cancelled; started when those in the store are handled."""
        await self.catch_up()
        task_status.started()
        while True:
            await self._wake.wait()
            self._wake = trio.Event()
            try:
                await self.catch_up()
            except StoreError as error:
                logger.warning("Notifications of changed configs could not be read, trying again: %s", error)
                await trio.sleep(_RETRY_AFTER_SECONDS)
                self._wake.set()

    async def catch_up(self) -> None:
        """Handle all notifications so far; the changed configs are in effect when this returns."""
        async with self._turn:
            names = await self._session.children(CONFIG_CHANGES, watch=True)
            paths = {int(match[1]): f"{CONFIG_CHANGES}/{name}" for name in names if (match := _CHANGE.fullmatch(name))}
            znodes = await self._session.get_many(list(paths.values()))
            changes = {number: znode for number, znode in zip(paths, znodes, strict=True) if znode is not None}
            entities = {
                read_or_pass_over(paths[number], decode_config_change, data) or ""
                for number, (data, _) in changes.items()
                if number > self._last
            }
            topics = sorted(each.removeprefix(_TOPICS) for each in entities if each.startswith(_TOPICS))
            for topic in await self._topic_configs.refresh(topics):
                logger.info("Topic %s has new configs: %s", topic, dict(self._topic_configs.get(topic)))
                self._changed(topic)
            if any(f"{_BROKERS}{entity}" in entities for entity in self._broker_configs.entities):
                await self._broker_configs.refresh()
            self._last = max([self._last, *changes])
            oldest = self._clock.now_ms() - _EXPIRES_AFTER_MS
            for number, (_, stat) in changes.items():
                if stat.ctime < oldest:
                    await self._delete(paths[number])

    async def _delete(self, path: str) -> None:
        try:
            await self._session.delete(path)
        except NoNodeError:
            logger.debug("%s is gone already", path)
