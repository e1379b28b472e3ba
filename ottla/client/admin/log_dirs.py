"""Log directories of brokers: their replicas, and moving replicas between the directories of one broker.

Must not know the assignment of partitions to brokers: `reassignments` owns that.
Counterparts in Kafka: KafkaAdminClient's log directory methods, LogDirDescription, ReplicaInfo.
"""

from collections.abc import Iterable, Mapping, Sequence
from typing import NamedTuple

import trio

from ottla.client.admin.reassignments import by_topic
from ottla.client.cluster import Client, kafka_error
from ottla.client.errors import ClientError
from ottla.wire.errors import ErrorCode, KafkaError
from ottla.wire.messages.alter_replica_log_dirs import (
    AlterReplicaLogDir,
    AlterReplicaLogDirsRequest,
    AlterReplicaLogDirsResponse,
    AlterReplicaLogDirTopic,
)
from ottla.wire.messages.describe_log_dirs import (
    DescribableLogDirTopic,
    DescribeLogDirsRequest,
    DescribeLogDirsResponse,
    DescribeLogDirsResult,
)
from ottla.wire.types import TopicPartition


class Replica(NamedTuple):
    """The replica of a partition on a broker."""

    topic: str
    partition: int
    broker_id: int

    def __str__(self) -> str:
        return f"{self.topic}-{self.partition}-{self.broker_id}"


class StoredReplica(NamedTuple):
    """A replica in a log directory. A future one replaces that of another directory when its lag is 0."""

    partition: TopicPartition
    size: int
    offset_lag: int
    is_future: bool


class LogDir(NamedTuple):
    """A log directory. The sizes of its volume are None if the broker does not return them."""

    path: str
    error: KafkaError | None
    total_bytes: int | None
    usable_bytes: int | None
    replicas: Sequence[StoredReplica]


class Whereabouts(NamedTuple):
    """The directory of a replica, and the one that it moves to; None if there is none."""

    current: str | None = None
    future: str | None = None


async def describe_log_dirs(
    client: Client, brokers: Iterable[int], partitions: Iterable[TopicPartition] | None = None
) -> dict[int, list[LogDir] | KafkaError]:
    """Return the log directories of each broker, with their replicas of these partitions or of all."""
    topics = None
    if partitions is not None:
        topics = [DescribableLogDirTopic(topic=name, partitions=each) for name, each in by_topic(partitions).items()]
    wanted = list(dict.fromkeys(brokers))
    results: dict[int, list[LogDir] | KafkaError] = {}

    async def ask(broker_id: int) -> None:
        try:
            response = await client.ask(DescribeLogDirsRequest(topics=topics), broker_id, DescribeLogDirsResponse)
        except (ClientError, KafkaError) as error:
            results[broker_id] = _unreachable(error)
            return
        results[broker_id] = _log_dirs(response)

    async with trio.open_nursery() as nursery:
        for broker_id in wanted:
            nursery.start_soon(ask, broker_id)
    return {each: results[each] for each in wanted}


def _unreachable(error: Exception) -> KafkaError:
    return error if isinstance(error, KafkaError) else KafkaError(ErrorCode.BROKER_NOT_AVAILABLE, str(error))


def _log_dirs(response: DescribeLogDirsResponse) -> list[LogDir] | KafkaError:
    if not response.results:
        # Before version 3 there was no error code: a broker returned no directories to an unauthorized client.
        return kafka_error(response.error_code or ErrorCode.CLUSTER_AUTHORIZATION_FAILED)
    return [_log_dir(each) for each in response.results]


def _log_dir(result: DescribeLogDirsResult) -> LogDir:
    return LogDir(
        result.log_dir,
        None if result.error_code == ErrorCode.NONE else kafka_error(result.error_code),
        None if result.total_bytes < 0 else result.total_bytes,
        None if result.usable_bytes < 0 else result.usable_bytes,
        [
            StoredReplica(
                TopicPartition(topic.name, each.partition_index),
                each.partition_size,
                each.offset_lag,
                each.is_future_key,
            )
            for topic in result.topics
            for each in topic.partitions
        ],
    )


async def find_replicas(client: Client, replicas: Iterable[Replica]) -> dict[Replica, Whereabouts]:
    """Return the directories of replicas. KafkaError if a broker cannot describe its directories."""
    wanted = list(dict.fromkeys(replicas))
    partitions = {TopicPartition(each.topic, each.partition) for each in wanted}
    brokers = dict.fromkeys(each.broker_id for each in wanted)
    found = dict.fromkeys(wanted, Whereabouts())
    for broker_id, dirs in (await describe_log_dirs(client, brokers, sorted(partitions))).items():
        if isinstance(dirs, KafkaError):
            raise dirs
        for directory in dirs:
            for stored in directory.replicas:
                replica = Replica(*stored.partition, broker_id)
                if replica in found:
                    change = {"future" if stored.is_future else "current": directory.path}
                    found[replica] = found[replica]._replace(**change)
    return found


async def alter_replica_log_dirs(client: Client, moves: Mapping[Replica, str]) -> dict[Replica, KafkaError | None]:
    """Start moves of replicas into other directories of their brokers."""
    results: dict[Replica, KafkaError | None] = {}
    by_broker: dict[int, dict[str, list[TopicPartition]]] = {}
    for replica, path in moves.items():
        partition = TopicPartition(replica.topic, replica.partition)
        by_broker.setdefault(replica.broker_id, {}).setdefault(path, []).append(partition)

    async def ask(broker_id: int, paths: Mapping[str, Sequence[TopicPartition]]) -> None:
        try:
            response = await client.ask(_alter_request(paths), broker_id, AlterReplicaLogDirsResponse)
        except (ClientError, KafkaError) as error:
            mine = [Replica(*each, broker_id) for partitions in paths.values() for each in partitions]
            results.update(dict.fromkeys(mine, _unreachable(error)))
            return
        for topic in response.results:
            for each in topic.partitions:
                error_code = each.error_code
                results[Replica(topic.topic_name, each.partition_index, broker_id)] = (
                    None if error_code == ErrorCode.NONE else kafka_error(error_code)
                )

    async with trio.open_nursery() as nursery:
        for broker_id, paths in by_broker.items():
            nursery.start_soon(ask, broker_id, paths)
    return results


def _alter_request(paths: Mapping[str, Sequence[TopicPartition]]) -> AlterReplicaLogDirsRequest:
    return AlterReplicaLogDirsRequest(
        dirs=[
            AlterReplicaLogDir(
                path=path,
                topics=[
                    AlterReplicaLogDirTopic(name=name, partitions=indexes)
                    for name, indexes in by_topic(partitions).items()
                ],
            )
            for path, partitions in paths.items()
        ]
    )
