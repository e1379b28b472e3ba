"""Elections of leaders, which the controller holds when it is asked to.

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
    """Who is elected: the first replica, or for want of an in-sync replica any live one."""

    PREFERRED = 0
    UNCLEAN = 1


async def elect_leaders(
    client: Client, kind: ElectionType, partitions: Iterable[TopicPartition] | None = None
) -> dict[TopicPartition, KafkaError | None]:
    """Elect leaders of some partitions, or of all; return what became of each.

    Of all partitions, those that need no election are left out. ELECTION_NOT_NEEDED is an error like others.
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
