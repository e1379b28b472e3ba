"""A cluster's metadata out of a store, and into one in which no broker is at work.

Owns which znodes it is read from and written to. Must not know which store it is, nor where the metadata comes from.
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

# What fits into one transaction of ZooKeeper, which takes a mebibyte; a topic's assignment may be half of that.
_AT_ONCE: Final = 500
PRODUCER_ID_BLOCK_SIZE: Final = 1000
# No controller is too old to go on from what has this epoch.
_NO_CONTROLLER: Final = 0


class Imported(NamedTuple):
    """What an import has done, in topics."""

    created: int
    changed: int
    unchanged: int


async def read_metadata(session: Session) -> ClusterMetadata | None:
    """Return what a store has; None if it is of no cluster. Topics on their way out are left out."""
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
    """Bring metadata into a store, none of it if something speaks against that: MetadataError.

    What was begun and cut off is completed by doing it again.
    """
    running = await _children(session, znodes.BROKER_IDS)
    if running:
        raise MetadataError(f"brokers are running there: {', '.join(sorted(running))}")
    leaving = sorted(set(await _children(session, znodes.DELETE_TOPICS)).intersection(wanted.topics))
    if leaving:
        raise MetadataError(f"topics are being deleted there: {', '.join(leaving)}")
    existing = await read_metadata(session) or ClusterMetadata(wanted.cluster_id, {}, {})
    if existing.cluster_id != wanted.cluster_id:
        raise MetadataError(f"this is metadata of cluster {wanted.cluster_id}, there is cluster {existing.cluster_id}")
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
    """What is to be written for one topic; nothing for one that is there as it should be."""
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
            # Whoever controls next elects a leader, in the next epoch.
            state = PartitionState(NO_LEADER, partition.leader_epoch, partition.isr, _NO_CONTROLLER)
            missing[znodes.partition_path(TopicPartition(name, index))] = b""
            missing[znodes.partition_state_path(TopicPartition(name, index))] = state.encode()
    if missing:
        missing = {znodes.partitions_path(name): b"", **missing}
    return await _puts(session, always, missing)


async def _puts(session: Session, always: Mapping[str, bytes], missing: Mapping[str, bytes]) -> list[Operation]:
    """How znodes get their data, of some only those that are not there; parents come before their children."""
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
    """No id that was given out is given out again: it would be taken for its first owner."""
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
    """Return what a znode says; MetadataError where it cannot be read."""
    try:
        return decode(data)
    except ZnodeError as error:
        raise MetadataError(f"{path}: {error}") from error
