"""Deleting the first records of partitions.

Counterparts in Kafka: KafkaAdminClient.deleteRecords, DeleteRecordsHandler.
"""

from collections.abc import Mapping, Sequence
from typing import Final

from ottla.client.admin.reassignments import by_topic
from ottla.client.cluster import Client, kafka_error
from ottla.wire.errors import ErrorCode, KafkaError
from ottla.wire.messages.delete_records import (
    DeleteRecordsPartition,
    DeleteRecordsRequest,
    DeleteRecordsResponse,
    DeleteRecordsTopic,
)
from ottla.wire.types import TopicPartition

HIGH_WATERMARK: Final = -1
"""In place of an offset: the high watermark, so all committed records are deleted."""


async def delete_records(
    client: Client, before: Mapping[TopicPartition, int]
) -> dict[TopicPartition, int | KafkaError]:
    """Delete the records before an offset of each partition; return the first offset left on all replicas."""
    timeout_ms = int(client.config["request.timeout.ms"])

    async def exchange(broker_id: int, partitions: Sequence[TopicPartition]) -> dict[TopicPartition, int | KafkaError]:
        topics = [
            DeleteRecordsTopic(
                name=name,
                partitions=[
                    DeleteRecordsPartition(partition_index=index, offset=before[TopicPartition(name, index)])
                    for index in indexes
                ],
            )
            for name, indexes in by_topic(partitions).items()
        ]
        request = DeleteRecordsRequest(topics=topics, timeout_ms=timeout_ms)
        response = await client.ask(request, broker_id, DeleteRecordsResponse, timeout_seconds=1.0)
        return {
            TopicPartition(topic.name, each.partition_index): each.low_watermark
            if each.error_code == ErrorCode.NONE
            else kafka_error(each.error_code)
            for topic in response.topics
            for each in topic.partitions
        }

    return await client.ask_leaders(before, exchange)
