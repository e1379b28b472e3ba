"""Leader elections that an operator requests from the controller.

Counterparts in Kafka: KafkaAdminClient.electLeaders, ElectionType.
"""

from collections.abc import Iterable
from enum import IntEnum

from ottla.client.admin.reassignments import by_topic
from ottla.client.cluster import CONTROLLER, Client, check, kafka_error
from ottla.wire.errors import ErrorCode, KafkaError
from ottla.wire.messages.elect_leaders import ElectLeadersRequest, ElectLeadersResponse, TopicPartitions
from ottla.wire.types import TopicPartition


class ElectionType(IntEnum):
    """The elected replica: the first one, or any live one if no replica is in sync."""

    PREFERRED = 0
    UNCLEAN = 1


async def elect_leaders(
    client: Client, kind: ElectionType, partitions: Iterable[TopicPartition] | None = None
) -> dict[TopicPartition, KafkaError | None]:
    """Elect leaders of some partitions, or of all; return the result of each partition.

    With None, partitions that need no election are left out. Otherwise their result is ELECTION_NOT_NEEDED.
    """
    topics = None
    if partitions is not None:
        topics = [TopicPartitions(topic=name, partitions=each) for name, each in by_topic(partitions).items()]
    request = ElectLeadersRequest(
        election_type=kind, topic_partitions=topics, timeout_ms=int(client.config["request.timeout.ms"])
    )
    lowest = 0 if kind is ElectionType.PREFERRED else 1
    response = await client.ask(request, CONTROLLER, ElectLeadersResponse, lowest=lowest, timeout_seconds=1.0)
    check(response.error_code)
    return {
        TopicPartition(topic.topic, each.partition_id): None
        if each.error_code == ErrorCode.NONE
        else kafka_error(each.error_code, each.error_message)
        for topic in response.replica_election_results
        for each in topic.partition_result
    }
