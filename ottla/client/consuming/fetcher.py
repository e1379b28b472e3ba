"""Fetching from one broker: one request after the other on a connection of its own, in a fetch session.

Owns the session. Must not know how answers are used. Counterparts in Kafka: FetchSessionHandler, Fetcher.
"""

from collections.abc import Mapping
from typing import Final

import trio

from ottla.client.cluster import Client, kafka_error
from ottla.client.connection import Connection
from ottla.client.errors import ConnectionFailedError
from ottla.wire.errors import ErrorCode
from ottla.wire.messages.fetch import (
    FetchPartition,
    FetchRequest,
    FetchResponse,
    FetchTopic,
    ForgottenTopic,
    PartitionData,
)
from ottla.wire.types import TopicPartition

_LOWEST: Final = 4
"""The first version of Fetch with batches of the format with headers."""
_HIGHEST: Final = 12
"""The last version with topic names; later versions have topic ids."""
_LOST: Final = frozenset(
    {
        ErrorCode.FETCH_SESSION_ID_NOT_FOUND,
        ErrorCode.INVALID_FETCH_SESSION_EPOCH,
        ErrorCode.FETCH_SESSION_TOPIC_ID_ERROR,
    }
)
Answers = Mapping[TopicPartition, PartitionData]


class Fetcher:
    """Fetches from one broker."""

    def __init__(self, client: Client, broker_id: int) -> None:
        self._client = client
        self._broker_id = broker_id
        self._connection: Connection | None = None
        self._session_id = 0
        self._epoch = 0
        self._asked: dict[TopicPartition, int] = {}
        """The positions that the session remembers."""

    async def fetch(self, positions: Mapping[TopicPartition, int]) -> Answers:
        """Return the broker's records at these positions; the broker waits up to `fetch.max.wait.ms` for some.

        A partition without changes may be missing. ClientError if the broker cannot be reached.
        """
        while True:
            response = await self._exchange(positions)
            if response.error_code in _LOST:
                self._forget()
                continue
            if response.error_code != ErrorCode.NONE:
                raise kafka_error(response.error_code, "Fetch")
            # The id is 0 if the broker gives no session. Epochs wrap to 1, because 0 begins a session.
            self._session_id = response.session_id
            self._epoch = self._epoch % 0x7FFFFFFF + 1 if response.session_id else 0
            self._asked = dict(positions) if response.session_id else {}
            return {
                TopicPartition(topic.topic, each.partition_index): each
                for topic in response.responses
                for each in topic.partitions
            }

    async def _exchange(self, positions: Mapping[TopicPartition, int]) -> FetchResponse:
        if self._connection is None or self._connection.is_closed:
            self._forget()
            self._connection = await self._client.dedicated(self._broker_id)
        connection = self._connection
        version = connection.version_of(FetchRequest, _LOWEST, _HIGHEST)
        config = self._client.config
        try:
            with trio.fail_after(config.seconds("request.timeout.ms") + config.seconds("fetch.max.wait.ms")):
                response = await connection.send(self._request(positions), version)
        except trio.TooSlowError:
            await connection.close()
            raise ConnectionFailedError(f"{connection.where}: no response to FETCH in time") from None
        assert isinstance(response, FetchResponse)
        return response

    def _request(self, positions: Mapping[TopicPartition, int]) -> FetchRequest:
        config = self._client.config
        topics: dict[str, list[FetchPartition]] = {}
        for each, offset in positions.items():
            if self._asked.get(each) != offset:
                topics.setdefault(each.topic, []).append(
                    FetchPartition(
                        partition=each.partition,
                        fetch_offset=offset,
                        partition_max_bytes=config["max.partition.fetch.bytes"],
                    )
                )
        forgotten: dict[str, list[int]] = {}
        for each in self._asked:
            if each not in positions:
                forgotten.setdefault(each.topic, []).append(each.partition)
        return FetchRequest(
            max_wait_ms=config["fetch.max.wait.ms"],
            min_bytes=config["fetch.min.bytes"],
            max_bytes=config["fetch.max.bytes"],
            isolation_level=int(config["isolation.level"] == "read_committed"),
            session_id=self._session_id,
            session_epoch=self._epoch,
            topics=[FetchTopic(topic=name, partitions=found) for name, found in topics.items()],
            forgotten_topics_data=[ForgottenTopic(topic=name, partitions=found) for name, found in forgotten.items()],
            rack_id=config["client.rack"],
        )

    def _forget(self) -> None:
        """Forget the session, so that the next request begins a new one."""
        self._session_id = self._epoch = 0
        self._asked = {}

    async def close(self) -> None:
        """Close the connection."""
        if self._connection is not None:
            await self._connection.close()
