"""The configs of topics, as this broker read them from the store.

Owns when configs are read: before the broker handles the first request about a topic's partitions, so that the code
that creates a log has them at once. Must not know what any config means. Counterpart in Kafka: ZkConfigRepository.
"""

import logging
from collections.abc import Callable, Collection, Mapping
from types import MappingProxyType
from typing import Final, TypeVar

import trio

from ottla.broker.cluster.unreadable_znodes import read_or_pass_over
from ottla.broker.loop.clock import StartSoon
from ottla.broker.loop.deferred import Deferred
from ottla.zk.store import Session, StoreError
from ottla.zk.znodes import decode_config, topic_config_path

logger = logging.getLogger("kafka.server.TopicConfigHandler")

T = TypeVar("T")

_NONE: Final[Mapping[str, str]] = MappingProxyType({})
_RETRY_AFTER_SECONDS: Final = 0.1


class TopicConfigs:
    """The configs of the topics of this broker's partitions."""

    def __init__(self, session: Session, start_soon: StartSoon) -> None:
        self._session = session
        self._start_soon = start_soon
        self._configs: dict[str, Mapping[str, str]] = {}
        self._reading: set[str] = set()

    def get(self, topic: str) -> Mapping[str, str]:
        """Return a topic's configs; none if they were not read."""
        return self._configs.get(topic, _NONE)

    def missing(self, topics: Collection[str]) -> list[str]:
        """Return the topics whose configs were not read."""
        return [topic for topic in topics if topic not in self._configs]

    def read(self, topics: Collection[str], then: Callable[[], None]) -> None:
        """Read topics' configs, then call `then`."""
        self._start_soon(self._read, list(topics), then)

    def look_up(
        self, topics: Collection[str], respond: Callable[[Mapping[str, Mapping[str, str]]], T]
    ) -> "T | Deferred[T]":
        """Return `respond(configs)`, later if configs of topics must be read first. These are not kept."""
        missing = self.missing(topics)
        known = {topic: self.get(topic) for topic in topics}
        if not missing:
            return respond(known)
        reply: Deferred[T] = Deferred(applied=False)

        async def complete() -> None:
            reply.complete(respond(known | await self._stored(missing)))

        self._start_soon(complete)
        return reply

    def forget(self, topics: Collection[str]) -> None:
        """Drop the configs of deleted topics, because a new topic of the same name has its own."""
        for topic in topics:
            self._configs.pop(topic, None)

    async def refresh(self, topics: Collection[str]) -> list[str]:
        """Read the configs of changed topics again, if this broker has them; return these topics."""
        wanted = [topic for topic in topics if topic in self._configs or topic in self._reading]
        found = await self._stored(wanted) if wanted else {}
        refreshed = [topic for topic in wanted if topic in self._configs or topic in self._reading]
        self._configs |= {topic: found[topic] for topic in refreshed}
        return refreshed

    async def _read(self, topics: list[str], then: Callable[[], None]) -> None:
        self._reading.update(topics)
        for topic, config in (await self._stored(topics)).items():
            # Configs from a refresh meanwhile are newer.
            self._configs.setdefault(topic, config)
        self._reading.difference_update(topics)
        then()

    async def _stored(self, topics: list[str]) -> dict[str, Mapping[str, str]]:
        while True:
            try:
                found = await self._session.get_many([topic_config_path(topic) for topic in topics])
                break
            except StoreError as error:
                logger.warning("Configs of topics could not be read, trying again: %s", error)
                await trio.sleep(_RETRY_AFTER_SECONDS)
        return {
            topic: _NONE if znode is None else _decode(topic, znode[0])
            for topic, znode in zip(topics, found, strict=True)
        }


def _decode(topic: str, data: bytes) -> Mapping[str, str]:
    """Return configs, none if they are unreadable, because the broker must go on for other topics."""
    return read_or_pass_over(topic_config_path(topic), decode_config, data) or _NONE
