"""Topics: describing, creating and deleting them, and adding partitions.

Must not know configs but those given at creation. Counterpart in Kafka: KafkaAdminClient's topic methods.
"""

from collections.abc import Iterable, Mapping, Sequence
from typing import Final, NamedTuple

from ottla.client.cluster import ANY, CONTROLLER, Client, kafka_error
from ottla.wire.errors import ErrorCode, KafkaError
from ottla.wire.messages.create_partitions import (
    CreatePartitionsAssignment,
    CreatePartitionsRequest,
    CreatePartitionsResponse,
    CreatePartitionsTopic,
)
from ottla.wire.messages.create_topics import (
    CreatableReplicaAssignment,
    CreatableTopic,
    CreatableTopicConfig,
    CreatableTopicResult,
    CreateTopicsRequest,
    CreateTopicsResponse,
)
from ottla.wire.messages.delete_topics import DeleteTopicsRequest, DeleteTopicsResponse, DeleteTopicState
from ottla.wire.messages.describe_topic_partitions import (
    Cursor,
    DescribeTopicPartitionsRequest,
    DescribeTopicPartitionsResponse,
    DescribeTopicPartitionsResponsePartition,
    DescribeTopicPartitionsResponseTopic,
    TopicRequest,
)
from ottla.wire.messages.metadata import MetadataResponseTopic

DEFAULT: Final = -1
"""As a number of partitions or replicas: the broker's default."""
_TIMEOUT_MS: Final = 30_000


class NewTopic(NamedTuple):
    """A topic to create: counts, or the brokers of each partition."""

    name: str
    partitions: int = DEFAULT
    replication_factor: int = DEFAULT
    assignments: Sequence[Sequence[int]] = ()
    configs: Mapping[str, str] = {}


class CreatedTopic(NamedTuple):
    """A topic's counts after creation, or after a check only; -1 if the broker does not return them."""

    name: str
    topic_id: bytes
    partitions: int
    replication_factor: int
    configs: Mapping[str, str | None]


async def describe_topics(client: Client, names: Iterable[str]) -> dict[str, MetadataResponseTopic | KafkaError]:
    """Return each topic by its name, or the error for it."""
    wanted = list(dict.fromkeys(names))
    found = {topic.name: topic for topic in (await client.metadata(wanted)).topics}
    results: dict[str, MetadataResponseTopic | KafkaError] = {}
    for name in wanted:
        topic = found.get(name)
        if topic is None:
            results[name] = KafkaError(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, "")
        elif topic.error_code != ErrorCode.NONE:
            results[name] = kafka_error(topic.error_code)
        else:
            results[name] = topic
    return results


class PartitionDescription(NamedTuple):
    """A partition; the eligible leader replicas are None if the broker does not return them."""

    partition: int
    leader: int | None
    replicas: Sequence[int]
    isr: Sequence[int]
    eligible_leaders: Sequence[int] | None = None
    last_known_eligible_leaders: Sequence[int] | None = None


class TopicDescription(NamedTuple):
    """A topic with its partitions in the order of their numbers."""

    name: str
    topic_id: bytes
    is_internal: bool
    partitions: Sequence[PartitionDescription]


async def describe_in_pages(
    client: Client, names: Sequence[str], most_partitions: int = 2000
) -> dict[str, TopicDescription | KafkaError]:
    """Return topics with their eligible leader replicas, from several responses of `most_partitions` each.

    A broker without DescribeTopicPartitions gets a Metadata request.
    """
    connection = await client.connection()
    if DescribeTopicPartitionsRequest.api_key not in connection.api_versions:
        found = await describe_topics(client, names)
        return {name: topic if isinstance(topic, KafkaError) else _described(topic) for name, topic in found.items()}
    results: dict[str, TopicDescription | KafkaError] = {}
    # Sorted, because a broker refuses other orders together with a cursor.
    topics = [TopicRequest(name=name) for name in sorted(names)]
    cursor: Cursor | None = None
    while topics:
        request = DescribeTopicPartitionsRequest(topics=topics, response_partition_limit=most_partitions, cursor=cursor)
        response = await client.ask(request, ANY, DescribeTopicPartitionsResponse)
        for topic in response.topics:
            _add_page(results, topic)
        cursor = response.next_cursor
        topics = [] if cursor is None else [each for each in topics if each.name >= cursor.topic_name]
    return results


def _add_page(results: dict[str, TopicDescription | KafkaError], topic: DescribeTopicPartitionsResponseTopic) -> None:
    name = topic.name or ""
    if topic.error_code != ErrorCode.NONE:
        results[name] = kafka_error(topic.error_code)
        return
    before = results.get(name)
    known = before.partitions if isinstance(before, TopicDescription) else ()
    partitions = [*known, *map(_partition, topic.partitions)]
    results[name] = TopicDescription(name, topic.topic_id, topic.is_internal, partitions)


def _partition(each: DescribeTopicPartitionsResponsePartition) -> PartitionDescription:
    return PartitionDescription(
        each.partition_index,
        None if each.leader_id < 0 else each.leader_id,
        list(each.replica_nodes),
        list(each.isr_nodes),
        None if each.eligible_leader_replicas is None else list(each.eligible_leader_replicas),
        None if each.last_known_elr is None else list(each.last_known_elr),
    )


def _described(topic: MetadataResponseTopic) -> TopicDescription:
    partitions = [
        PartitionDescription(
            each.partition_index,
            None if each.leader_id < 0 else each.leader_id,
            list(each.replica_nodes),
            list(each.isr_nodes),
        )
        for each in sorted(topic.partitions, key=lambda it: it.partition_index)
    ]
    return TopicDescription(topic.name or "", topic.topic_id, topic.is_internal, partitions)


async def create_topics(
    client: Client, topics: Sequence[NewTopic], *, validate_only: bool = False
) -> dict[str, CreatedTopic | KafkaError]:
    """Create topics, or only check the request."""
    request = CreateTopicsRequest(
        topics=[_creatable(each) for each in topics], timeout_ms=_timeout_ms(client), validate_only=validate_only
    )
    # Before version 4 a request must have both counts.
    lowest = (
        4
        if any(not each.assignments and DEFAULT in (each.partitions, each.replication_factor) for each in topics)
        else 1
    )
    response = await client.ask(
        request, CONTROLLER, CreateTopicsResponse, lowest=lowest, timeout_seconds=_TIMEOUT_MS / 1000
    )
    return {each.name: _created(each) for each in response.topics}


def _creatable(topic: NewTopic) -> CreatableTopic:
    return CreatableTopic(
        name=topic.name,
        num_partitions=DEFAULT if topic.assignments else topic.partitions,
        replication_factor=DEFAULT if topic.assignments else topic.replication_factor,
        assignments=[
            CreatableReplicaAssignment(partition_index=index, broker_ids=list(brokers))
            for index, brokers in enumerate(topic.assignments)
        ],
        configs=[CreatableTopicConfig(name=name, value=value) for name, value in topic.configs.items()],
    )


def _created(result: CreatableTopicResult) -> CreatedTopic | KafkaError:
    if result.error_code != ErrorCode.NONE:
        return kafka_error(result.error_code, result.error_message)
    configs = {each.name: each.value for each in result.configs or ()}
    return CreatedTopic(result.name, result.topic_id, result.num_partitions, result.replication_factor, configs)


async def create_partitions(
    client: Client,
    counts: Mapping[str, int],
    assignments: Mapping[str, Sequence[Sequence[int]]] | None = None,
    *,
    validate_only: bool = False,
) -> dict[str, KafkaError | None]:
    """Increase topics to a count of partitions; `assignments` name the brokers of the new ones."""
    brokers = assignments or {}
    topics = [
        CreatePartitionsTopic(
            name=name,
            count=count,
            assignments=[CreatePartitionsAssignment(broker_ids=list(each)) for each in brokers[name]]
            if name in brokers
            else None,
        )
        for name, count in counts.items()
    ]
    request = CreatePartitionsRequest(topics=topics, timeout_ms=_timeout_ms(client), validate_only=validate_only)
    response = await client.ask(request, CONTROLLER, CreatePartitionsResponse, timeout_seconds=_TIMEOUT_MS / 1000)
    return {each.name: _error(each.error_code, each.error_message) for each in response.results}


async def delete_topics(client: Client, names: Sequence[str]) -> dict[str, KafkaError | None]:
    """Delete topics by their names."""
    request = DeleteTopicsRequest(
        topics=[DeleteTopicState(name=name) for name in names],
        topic_names=list(names),
        timeout_ms=_timeout_ms(client),
    )
    response = await client.ask(request, CONTROLLER, DeleteTopicsResponse, timeout_seconds=_TIMEOUT_MS / 1000)
    return {each.name or "": _error(each.error_code, each.error_message) for each in response.responses}


def _error(code: int, message: str | None) -> KafkaError | None:
    return None if code == ErrorCode.NONE else kafka_error(code, message)


def _timeout_ms(client: Client) -> int:
    """Return the controller's timeout, which is shorter than the client's."""
    return min(_TIMEOUT_MS, int(client.config["default.api.timeout.ms"]))
