"""The response to a Fetch, made of the read results of its partitions.

Owns how results and errors look in each version. Must not know how partitions are read, nor sessions.
Counterpart in Kafka: KafkaApis.handleFetchRequest's processResponseCallback.
"""

from collections.abc import Sequence
from typing import Final

from ottla.broker.fetch.sessions import SessionPartition
from ottla.broker.replicas.manager import ReplicaManager
from ottla.broker.replicas.reads import NO_REPLICA, Reader, ReadResult
from ottla.wire.errors import ErrorCode
from ottla.wire.messages.fetch import (
    EpochEndOffset,
    FetchableTopicResponse,
    FetchResponse,
    FetchTopic,
    LeaderIdAndEpoch,
    NodeEndpoint,
    PartitionData,
)

_STORAGE_ERROR_FROM_VERSION: Final = 6
_ZSTD_FROM_VERSION: Final = 10
_LEADERS_FROM_VERSION: Final = 16
# Kafka does not read for these: `aborted_transactions` is empty then, and not null.
_WITHOUT_READING: Final = frozenset(
    {
        ErrorCode.UNKNOWN_TOPIC_ID,
        ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
        ErrorCode.TOPIC_AUTHORIZATION_FAILED,
        ErrorCode.UNSUPPORTED_COMPRESSION_TYPE,
    }
)
_MOVED: Final = frozenset({ErrorCode.NOT_LEADER_OR_FOLLOWER, ErrorCode.FENCED_LEADER_EPOCH})


class FetchAnswers:
    """Makes the responses to one reader."""

    __slots__ = ("_counts", "_listener", "_replicas", "_version", "_with_aborted")

    def __init__(self, version: int, listener: str, reader: Reader, replicas: ReplicaManager) -> None:
        self._version = version
        self._listener = listener
        self._replicas = replicas
        self._with_aborted = reader.reads_committed
        self._counts = reader.is_follower

    def single(self, topic: FetchTopic, name: str, index: int, result: ReadResult) -> FetchResponse:
        """Return the response for one partition, without a session."""
        endpoints: dict[int, NodeEndpoint] = {}
        data = self._data(name, index, result, endpoints)
        found = FetchableTopicResponse(topic=topic.topic, topic_id=topic.topic_id, partitions=[data])
        if endpoints:
            return FetchResponse(responses=[found], node_endpoints=list(endpoints.values()))
        return FetchResponse(responses=[found])

    def response(
        self, error: ErrorCode, session_id: int, readings: Sequence[tuple[SessionPartition, ReadResult]]
    ) -> FetchResponse:
        """Return the response for several partitions. Neighbours of one topic share an entry."""
        endpoints: dict[int, NodeEndpoint] = {}
        topics: list[FetchableTopicResponse] = []
        last: tuple[str | None, bytes] | None = None
        found: list[PartitionData] = []
        for partition, result in readings:
            topic = (partition.topic, partition.topic_id)
            if topic != last:
                last = topic
                found = []
                name = partition.topic or ""
                topics.append(FetchableTopicResponse(topic=name, topic_id=partition.topic_id, partitions=found))
            found.append(self._data(partition.topic, partition.partition, result, endpoints))
        return FetchResponse(
            error_code=error, session_id=session_id, responses=topics, node_endpoints=list(endpoints.values())
        )

    def _data(
        self, topic: str | None, index: int, result: ReadResult, endpoints: dict[int, NodeEndpoint]
    ) -> PartitionData:
        if self._version < _ZSTD_FROM_VERSION and topic is not None and self._is_zstd(topic, index):
            return self._error(topic, index, ErrorCode.UNSUPPORTED_COMPRESSION_TYPE, endpoints)
        if result.error:
            return self._error(topic, index, result.error, endpoints)
        if self._counts and result.size:
            self._replicas.sent_to_follower(topic, index, result.size)
        data = PartitionData(
            partition_index=index,
            error_code=0,
            high_watermark=result.high_watermark,
            last_stable_offset=result.last_stable_offset,
            log_start_offset=result.log_start_offset,
            aborted_transactions=result.aborted_transactions if self._with_aborted else None,
            records=result.records,
        )
        if result.diverging_epoch is not None:
            epoch, end_offset = result.diverging_epoch
            data.diverging_epoch = EpochEndOffset(epoch=epoch, end_offset=end_offset)
            data.aborted_transactions = None
        if result.preferred_read_replica != NO_REPLICA:
            data.preferred_read_replica = result.preferred_read_replica
            data.aborted_transactions = None
        return data

    def _error(
        self, topic: str | None, index: int, code: ErrorCode, endpoints: dict[int, NodeEndpoint]
    ) -> PartitionData:
        if code == ErrorCode.KAFKA_STORAGE_ERROR and self._version < _STORAGE_ERROR_FROM_VERSION:
            code = ErrorCode.NOT_LEADER_OR_FOLLOWER
        aborted = () if code in _WITHOUT_READING else None
        records = None if code == ErrorCode.UNSUPPORTED_COMPRESSION_TYPE else b""
        data = PartitionData(
            partition_index=index, error_code=code, high_watermark=-1, aborted_transactions=aborted, records=records
        )
        if code in _MOVED and self._version >= _LEADERS_FROM_VERSION and topic is not None:
            leader, epoch, node = self._replicas.current_leader(topic, index, self._listener)
            data.current_leader = LeaderIdAndEpoch(leader_id=leader, leader_epoch=epoch)
            if node is not None:
                endpoints[leader] = NodeEndpoint(node_id=leader, host=node.host, port=node.port, rack=node.rack)
        return data

    def _is_zstd(self, topic: str, index: int) -> bool:
        hosted = self._replicas.partitions.get((topic, index))
        return hosted is not None and hosted.log.config.values["compression.type"] == "zstd"
