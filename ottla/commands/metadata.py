"""`ottla metadata`: a cluster's metadata out of a store into a file, and from a file or a log directory into a store.

Owns the two ends, and the locks that keep other processes away. Must not know what the metadata is, nor znodes.
Counterparts in Kafka: the migration from ZooKeeper to KRaft, and kafka-metadata-shell.
"""

import logging
import os
import sys
from collections.abc import Awaitable, Callable, Mapping, Sequence
from contextlib import AsyncExitStack
from pathlib import Path
from typing import Any, Final, NamedTuple, TypeVar

import trio

from ottla.broker.cluster.topic_names import GROUP_METADATA_TOPIC, TRANSACTION_STATE_TOPIC
from ottla.broker.config.broker_config import BrokerConfig
from ottla.broker.controller.topic_plans import topic_by_name
from ottla.broker.loop.clock import Clock, thread_offload
from ottla.broker.node import STORE_FILE, open_store
from ottla.log.config import LogConfig
from ottla.log.directory_contents import (
    PartitionFound,
    UnreadableDirectoryError,
    has_kraft_metadata,
    identify,
    kraft_records,
    partitions_in,
)
from ottla.log.state.checkpoint import replace_file
from ottla.log.state.directory_failures import NoLogDirectoryError
from ottla.log.state.meta_properties import DirectoryInUse, DirectoryLocks, read_meta_properties, take_from_kraft
from ottla.wire.config_def import ConfigError
from ottla.zk.cluster_metadata import ClusterMetadata, MetadataError, PartitionMetadata, TopicMetadata
from ottla.zk.kraft_records import KraftImage
from ottla.zk.store import Session, StoreError
from ottla.zk.transfer import PRODUCER_ID_BLOCK_SIZE, Imported, read_metadata, write_metadata
from ottla.zk.znodes import ReplicaAssignment

T = TypeVar("T")

_REFUSALS: Final = (
    NoLogDirectoryError,
    ConfigError,
    DirectoryInUse,
    MetadataError,
    StoreError,
    UnreadableDirectoryError,
    OSError,
)


class Source(NamedTuple):
    """Metadata to import, and remarks for the operator."""

    metadata: ClusterMetadata
    remarks: Sequence[str] = ()


def export_metadata(
    file: Path,
    properties: Path | None,
    overrides: Mapping[str, str],
    environ: Mapping[str, str],
    *,
    defaults: Mapping[str, str],
) -> int:
    """Write the metadata of the store into a file; return the exit code of the process."""

    async def export() -> str:
        config, _ = BrokerConfig.load(properties, overrides, environ, defaults=defaults)
        async with AsyncExitStack() as stack:
            _lock(_directories_of_store(config, must_exist=True), stack)
            metadata = await _in_store(config, stack, read_metadata)
        if metadata is None:
            raise MetadataError(f"there is no cluster in {_store_name(config)}")
        await trio.to_thread.run_sync(replace_file, file, metadata.encode())
        return f"exported {len(metadata.topics)} topics of cluster {metadata.cluster_id}"

    return _run(export)


def import_metadata(
    source: Path,
    properties: Path | None,
    overrides: Mapping[str, str],
    environ: Mapping[str, str],
    *,
    overwrite: bool = False,
) -> int:
    """Write the metadata of a file or a log directory into the store; return the exit code of the process."""

    async def bring() -> str:
        config, _ = BrokerConfig.load(properties, overrides, environ)
        if properties is None and not _says_store(config):
            raise MetadataError(
                "no store to import into is named: give --data DIR, --zookeeper HOST:PORT, or the broker's file"
            )
        async with AsyncExitStack() as stack:
            directories = _source_directories(source, config)
            _lock(directories, stack)
            found = await trio.to_thread.run_sync(_read_source, source, directories, config)
            _lock([each for each in _directories_of_store(config) if each not in directories], stack)
            _check_directories(config, found.metadata.cluster_id)

            async def write(session: Session) -> Imported:
                return await write_metadata(session, found.metadata, overwrite=overwrite)

            done = await _in_store(config, stack, write)
            for directory in {*directories, *_directories_of_store(config)}.intersection(config.log_dirs):
                take_from_kraft(directory)
        for remark in found.remarks:
            _say(remark)
        told = f"imported cluster {found.metadata.cluster_id}: "
        return told + f"{done.created} topics new, {done.changed} changed, {done.unchanged} as they were"

    return _run(bring)


def _run(work: Callable[[], Awaitable[str]]) -> int:
    # Log lines of libraries are dropped: the command prints one line at its end.
    logging.basicConfig(handlers=[logging.NullHandler()])
    try:
        told = trio.run(work)
    except _REFUSALS as error:
        reason = f"{error.filename}: {error.strerror}" if isinstance(error, OSError) and error.filename else str(error)
        _say(reason)
        return 1
    sys.stdout.write(f"{told}\n")
    return 0


def _say(text: str) -> None:
    sys.stderr.write(f"ottla: {' '.join(text.split())}\n")


# The store


def _says_store(config: BrokerConfig) -> bool:
    return bool(config.values["zookeeper.connect"]) or not {"log.dirs", "log.dir"}.isdisjoint(config.texts)


def _store_name(config: BrokerConfig) -> str:
    return str(config.values["zookeeper.connect"] or config.log_dirs[0] / STORE_FILE)


def _directories_of_store(config: BrokerConfig, *, must_exist: bool = False) -> Sequence[Path]:
    """Return the log directories to lock if one of them holds the store; a broker locks all or none."""
    if config.values["zookeeper.connect"]:
        return ()
    if must_exist and not (config.log_dirs[0] / STORE_FILE).exists():
        raise MetadataError(f"there is no cluster in {_store_name(config)}")
    return config.log_dirs


def _lock(directories: Sequence[Path], stack: AsyncExitStack) -> None:
    by_place = {os.path.realpath(directory): directory for directory in directories}
    if not by_place:
        return
    locks = DirectoryLocks(list(by_place.values()))
    stack.callback(locks.release)
    if left_out := set(by_place.values()).difference(locks.directories):
        raise MetadataError(f"{', '.join(map(str, left_out))} cannot be used")


async def _in_store(config: BrokerConfig, stack: AsyncExitStack, work: Callable[[Session], Awaitable[T]]) -> T:
    begin = await open_store(config, thread_offload(1), Clock().now_ms, stack)
    session = await begin(lambda event: None)
    try:
        return await work(session)
    finally:
        await session.close()


def _check_directories(config: BrokerConfig, cluster_id: str) -> None:
    """Raise MetadataError if a directory of the store belongs to another cluster."""
    for directory in _directories_of_store(config):
        found = (read_meta_properties(directory) or {}).get("cluster.id", cluster_id)
        if found != cluster_id:
            raise MetadataError(f"this is metadata of cluster {cluster_id}, {directory} is of cluster {found}")


# The source


def _source_directories(source: Path, config: BrokerConfig) -> Sequence[Path]:
    """Return the directories to read: one of a broker's directories stands for all of them."""
    if not source.is_dir():
        return ()
    is_own = os.path.realpath(source) in map(os.path.realpath, config.log_dirs)
    if not is_own and (source / STORE_FILE).exists():
        raise MetadataError(f"{source} has a store: export its metadata, and import the file")
    if is_own:
        return [source, *config.log_dirs]
    return [source]


def _read_source(source: Path, directories: Sequence[Path], config: BrokerConfig) -> Source:
    if not directories:
        try:
            return Source(ClusterMetadata.decode(source.read_bytes()))
        except MetadataError as error:
            raise MetadataError(f"{source}: {error}") from error
    identity = identify(source)
    try:
        with_metadata = next(filter(has_kraft_metadata, directories), None)
        if with_metadata is not None:
            return _kraft_source(with_metadata, identity.cluster_id)
        by_place = {os.path.realpath(directory): directory for directory in directories}
        found = [each for directory in by_place.values() for each in partitions_in(directory)]
        topics = _topics(found, identity.broker_id, config.values)
    except MetadataError as error:
        raise MetadataError(f"{source}: {error}") from error
    highest = max((each.highest_producer_id for each in found), default=-1)
    # Producers may hold ids of the broker's block without having written yet.
    next_producer_id = (highest // PRODUCER_ID_BLOCK_SIZE + 1) * PRODUCER_ID_BLOCK_SIZE
    metadata = ClusterMetadata(identity.cluster_id, topics, {}, next_producer_id)
    bare = sum(topic.configs is None for topic in topics.values())
    remark = f"a directory has no configs of topics: {bare} topics keep those of the store, if any"
    return Source(metadata, [remark] if bare else [])


def _kraft_source(directory: Path, cluster_id: str) -> Source:
    image = KraftImage()
    for record in kraft_records(directory):
        image.replay(record)
    metadata = image.metadata(cluster_id)
    remarks = [f"not taken over: {each}" for each in sorted(image.left_out)]
    topics = {}
    for name, topic in metadata.topics.items():
        configs = dict(topic.configs or {})
        for key, value in (topic.configs or {}).items():
            try:
                LogConfig.from_topic({key: value})
            except ConfigError as error:
                # One invalid config would make all configs of the topic invalid.
                remarks.append(f"not taken over: {key} of topic {name}: {error}")
                del configs[key]
        topics[name] = topic._replace(configs=configs)
    return Source(metadata._replace(topics=topics), remarks)


def _topics(found: Sequence[PartitionFound], broker_id: int, values: Mapping[str, Any]) -> dict[str, TopicMetadata]:
    """Return the topics of one broker's logs, with this broker as the only replica."""
    partitions: dict[str, dict[int, PartitionMetadata]] = {}
    ids: dict[str, bytes | None] = {}
    for (topic, index), topic_id, leader_epoch, _ in found:
        if ids.setdefault(topic, topic_id) != topic_id:
            raise MetadataError(f"the logs of topic {topic} have several ids")
        isr = (broker_id,) if leader_epoch >= 0 else ()
        partitions.setdefault(topic, {})[index] = PartitionMetadata(ReplicaAssignment((broker_id,)), leader_epoch, isr)
    for topic, logs in partitions.items():
        missing = set(range(max(logs) + 1)).difference(logs)
        if missing:
            raise MetadataError(f"there is no log of {topic}-{min(missing)}: the cluster's own metadata is needed")
    return {
        topic: TopicMetadata(ids[topic], dict(sorted(logs.items())), _known_configs(topic, values))
        for topic, logs in partitions.items()
    }


def _known_configs(topic: str, values: Mapping[str, Any]) -> dict[str, str] | None:
    """Return the configs with which Kafka creates an internal topic; None for other topics."""
    if topic == GROUP_METADATA_TOPIC:
        return {each.name: each.value or "" for each in topic_by_name(topic, values, 1).configs}
    if topic == TRANSACTION_STATE_TOPIC:
        return {
            "cleanup.policy": "compact",
            "compression.type": "uncompressed",
            "segment.bytes": "104857600",
            "unclean.leader.election.enable": "false",
        }
    return None
