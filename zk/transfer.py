"""Export of a cluster's metadata from a store, and import into a store without running brokers.

Owns the choice of znodes that are read and written. Must not know which store it is, nor where the metadata comes from.
"""

from collections.abc import Callable, Mapping, Sequence
from typing import Final, NamedTuple, TypeVar

from ottla.wire.types import NO_EPOCH, TopicPartition
from ottla.zk import znodes
from ottla.zk.bootstrap import prepare_tree
from ottla.zk.cluster_metadata import (
    ClusterMetadata,
    MetadataError,
    PartitionMetadata,
    TopicMetadata,
    conflicts,
)
from ottla.zk.store import Create, NoNodeError, Operation, Session, SetData
from ottla.zk.strict_json import ZnodeError
from ottla.zk.znodes import NO_LEADER, PartitionState, ProducerIdBlock, TopicAssignment

T = TypeVar("T")

# Operations of one transaction. ZooKeeper takes a mebibyte, and a topic's assignment may be half of that.
_AT_ONCE: Final = 500
PRODUCER_ID_BLOCK_SIZE: Final = 1000
# Every controller may update a partition state of this epoch, because its own epoch is higher.
_NO_CONTROLLER: Final = 0


class Imported(NamedTuple):
    """The numbers of topics that an import created, changed, and left unchanged."""

    created: int
    changed: int
    unchanged: int


async def read_metadata(session: Session) -> ClusterMetadata | None:
    """Return a store's metadata without topics that are being deleted; None if the store has no cluster id."""
    cluster_id = await _cluster_id(session)
    if cluster_id is None:
        return None
    deleted = await _children(session, znodes.DELETE_TOPICS)
    names = sorted(set(await _children(session, znodes.TOPICS)).difference(deleted))
    found = await session.get_many([znodes.topic_path(name) for name in names])
    configs = await _configs(session, [znodes.topic_config_path(name) for name in names])
    topics = {}
    for name, znode, config in zip(names, found, configs, strict=True):
        if znode is not None:
            assignment = _decoded(znodes.topic_path(name), TopicAssignment.decode, znode[0])
            partitions = await _partitions(session, name, assignment)
            topics[name] = TopicMetadata(assignment.topic_id, partitions, config)
    brokers = sorted(await _children(session, znodes.BROKER_CONFIGS))
    broker_configs = await _configs(session, [znodes.broker_config_path(name) for name in brokers])
    configs_by_broker = dict(zip(brokers, broker_configs, strict=True))
    return ClusterMetadata(cluster_id, topics, configs_by_broker, await _next_producer_id(session))


async def write_metadata(session: Session, wanted: ClusterMetadata, *, overwrite: bool = False) -> Imported:
    """Write metadata into a store. MetadataError: there is a conflict, and nothing was written.

    A second import completes an import that was interrupted.
    """
    running = await _children(session, znodes.BROKER_IDS)
    if running:
        raise MetadataError(f"brokers are running on this store: {', '.join(sorted(running))}")
    leaving = sorted(set(await _children(session, znodes.DELETE_TOPICS)).intersection(wanted.topics))
    if leaving:
        raise MetadataError(f"the store is deleting topics: {', '.join(leaving)}")
    existing = await read_metadata(session) or ClusterMetadata(wanted.cluster_id, {}, {})
    if existing.cluster_id != wanted.cluster_id:
        raise MetadataError(f"this is metadata of cluster {wanted.cluster_id}, but the store has {existing.cluster_id}")
    against = list(conflicts(existing, wanted, overwrite=overwrite))
    if against:
        more = f" (and {len(against) - 1} more)" if len(against) > 1 else ""
        raise MetadataError(against[0] + more)
    await prepare_tree(session, wanted.cluster_id)
    operations: list[Operation] = []
    for name, configs in wanted.broker_configs.items():
        if existing.broker_configs.get(name) != configs:
            path = znodes.broker_config_path(name)
            operations += await _puts(session, {path: znodes.encode_config(configs)}, {})
    created = changed = 0
    for name, topic in wanted.topics.items():
        steps = await _topic_operations(session, name, existing.topics.get(name), topic)
        created += name not in existing.topics
        changed += name in existing.topics and bool(steps)
        operations += steps
    operations += await _producer_id_operations(session, wanted.next_producer_id)
    transactions = [operations[start : start + _AT_ONCE] for start in range(0, len(operations), _AT_ONCE)]
    for transaction in transactions:
        await session.multi(transaction)
    return Imported(created, changed, len(wanted.topics) - created - changed)


async def _topic_operations(
    session: Session, name: str, known: TopicMetadata | None, topic: TopicMetadata
) -> list[Operation]:
    """Return the operations that write one topic; none if the store has the topic as wanted."""
    always: dict[str, bytes] = {}
    known_configs = None if known is None else known.configs
    configs = topic.configs if topic.configs is not None else known_configs or {}
    if configs != known_configs:
        always[znodes.topic_config_path(name)] = znodes.encode_config(configs)
    if known is None or known.assignments != topic.assignments:
        always[znodes.topic_path(name)] = TopicAssignment(topic.topic_id, topic.assignments).encode()
    missing: dict[str, bytes] = {}
    for index, partition in topic.partitions.items():
        if partition.leader_epoch != NO_EPOCH:
            # The next controller elects a leader, in the next epoch.
            state = PartitionState(NO_LEADER, partition.leader_epoch, partition.isr, _NO_CONTROLLER)
            missing[znodes.partition_path(TopicPartition(name, index))] = b""
            missing[znodes.partition_state_path(TopicPartition(name, index))] = state.encode()
    if missing:
        missing = {znodes.partitions_path(name): b"", **missing}
    return await _puts(session, always, missing)


async def _puts(session: Session, always: Mapping[str, bytes], missing: Mapping[str, bytes]) -> list[Operation]:
    """Return operations that write `always`, and of `missing` the znodes that do not exist; parents come first."""
    data = {**always, **missing}
    found = await session.get_many(list(data))
    operations: list[Operation] = []
    for path, znode in zip(data, found, strict=True):
        if znode is None:
            operations.append(Create(path, data[path]))
        elif path in always:
            operations.append(SetData(path, data[path]))
    return operations


async def _producer_id_operations(session: Session, wanted: int) -> list[Operation]:
    """Return the operation that reserves ids below `wanted`, because a producer id must not be allocated twice."""
    if wanted <= await _next_producer_id(session):
        return []
    block = ProducerIdBlock(NO_LEADER, max(0, wanted - PRODUCER_ID_BLOCK_SIZE), wanted - 1)
    return [SetData(znodes.PRODUCER_ID_BLOCK, block.encode())]


# Reading


async def _cluster_id(session: Session) -> str | None:
    try:
        data, _ = await session.get(znodes.CLUSTER_ID)
    except NoNodeError:
        return None
    return _decoded(znodes.CLUSTER_ID, znodes.decode_cluster_id, data)


async def _children(session: Session, path: str) -> list[str]:
    try:
        return await session.children(path)
    except NoNodeError:
        return []


async def _configs(session: Session, paths: Sequence[str]) -> list[dict[str, str]]:
    found = await session.get_many(paths)
    return [
        {} if znode is None else _decoded(path, znodes.decode_config, znode[0])
        for path, znode in zip(paths, found, strict=True)
    ]


async def _partitions(session: Session, name: str, assignment: TopicAssignment) -> dict[int, PartitionMetadata]:
    paths = {index: znodes.partition_state_path(TopicPartition(name, index)) for index in sorted(assignment.partitions)}
    states = await session.get_many(list(paths.values()))
    found = {}
    for (index, path), znode in zip(paths.items(), states, strict=True):
        replicas = assignment.partitions[index]
        found[index] = PartitionMetadata(replicas)
        if znode is not None:
            state = _decoded(path, PartitionState.decode, znode[0])
            found[index] = PartitionMetadata(replicas, state.leader_epoch, state.isr)
    return found


async def _next_producer_id(session: Session) -> int:
    (znode,) = await session.get_many([znodes.PRODUCER_ID_BLOCK])
    if znode is None or not znode[0]:
        return 0
    return _decoded(znodes.PRODUCER_ID_BLOCK, ProducerIdBlock.decode, znode[0]).last + 1


def _decoded(path: str, decode: Callable[[bytes], T], data: bytes) -> T:
    """Return a znode's decoded data. MetadataError: it cannot be decoded."""
    try:
        return decode(data)
    except ZnodeError as error:
        raise MetadataError(f"{path}: {error}") from error
