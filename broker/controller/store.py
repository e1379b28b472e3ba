"""The controller's reads and writes of the store, in the controller's terms.

Owns the use of znodes, and the fence: every write of a controller checks that /controller_epoch has its version from
the election, so that a replaced controller writes nothing. Must not know the reason of a write.
Counterpart in Kafka: KafkaZkClient.
"""

import logging
import uuid
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from functools import partial
from typing import Final, TypeVar

import trio

from ottla.broker.cluster.unreadable_znodes import read_or_pass_over
from ottla.broker.controller.context import LiveBroker
from ottla.broker.controller.state_machines import StateWrite
from ottla.broker.controller.topic_plans import NewTopic
from ottla.wire.types import TopicPartition
from ottla.wire.uuids import uuid_text
from ottla.zk import znodes
from ottla.zk.store import (
    BadVersionError,
    Check,
    Create,
    Delete,
    NodeExistsError,
    NoNodeError,
    Operation,
    Result,
    Session,
    SessionExpiredError,
    SetData,
    StoreError,
    StoreFailedError,
)
from ottla.zk.znodes import BrokerInfo, PartitionState, ReplicaAssignment, TopicAssignment

logger = logging.getLogger("kafka.zk.AdminZkClient")

# The epoch before the first controller's; as in Kafka, that one has epoch 1.
_NO_CONTROLLER_YET: Final = 0
# The id of a controller whose znode is unreadable.
UNKNOWN_BROKER: Final = -1
_RESERVED_TOPIC_IDS: Final = (bytes(16), bytes(15) + b"\1")

Outcome = list[Result] | StoreError
T = TypeVar("T")


def new_topic_id() -> bytes:
    """Return a random id. It is none of Kafka's reserved ids, and its text does not look like an option."""
    while True:
        raw = uuid.uuid4().bytes
        if raw not in _RESERVED_TOPIC_IDS and not uuid_text(raw).startswith("-"):
            return raw


class ControllerMovedError(Exception):
    """Another broker is the controller now, or this one must be elected again."""


class ClusterStore:
    """One session's access to the cluster's znodes."""

    def __init__(self, session: Session) -> None:
        self.session = session
        self._fence: Check | None = None

    # The election

    async def controller_id(self) -> int | None:
        """Return the id of the controller, None without one, UNKNOWN_BROKER if it is unreadable; watch the znode."""
        await self.session.exists(znodes.CONTROLLER, watch=True)
        try:
            data, _ = await self.session.get(znodes.CONTROLLER)
        except NoNodeError:
            return None
        found = read_or_pass_over(znodes.CONTROLLER, znodes.decode_controller, data)
        return UNKNOWN_BROKER if found is None else found

    async def become_controller(self, broker_id: int, timestamp_ms: int) -> int | None:
        """Take /controller and the next epoch in one transaction; return that epoch. From now on writes are fenced.

        None while the last epoch cannot be read. The znode is watched, because somebody may repair it.
        """
        try:
            data, stat = await self.session.get(znodes.CONTROLLER_EPOCH, watch=True)
            epoch = read_or_pass_over(znodes.CONTROLLER_EPOCH, znodes.decode_controller_epoch, data)
            if epoch is None:
                return None
            version = stat.version
            fence: list[Operation] = [
                SetData(znodes.CONTROLLER_EPOCH, znodes.encode_controller_epoch(epoch + 1), version)
            ]
        except NoNodeError:
            epoch, version = _NO_CONTROLLER_YET, 0
            # Written twice, so that the znode has the same version as with Kafka.
            first, second = (znodes.encode_controller_epoch(each) for each in (epoch, epoch + 1))
            fence = [Create(znodes.CONTROLLER_EPOCH, first), SetData(znodes.CONTROLLER_EPOCH, second, 0)]
        controller = znodes.encode_controller(broker_id, timestamp_ms)
        try:
            await self.session.multi([Create(znodes.CONTROLLER, controller, ephemeral=True), *fence])
        except (NodeExistsError, BadVersionError, NoNodeError) as error:
            raise ControllerMovedError("another broker was elected") from error
        self._fence = Check(znodes.CONTROLLER_EPOCH, version + 1)
        return epoch + 1

    async def resign(self) -> None:
        """Delete /controller, if this broker is still the controller."""
        with suppress(ControllerMovedError):
            await self._write([[Delete(znodes.CONTROLLER)]])

    async def give_up(self) -> None:
        """Delete /controller if this session owns it."""
        stat = await self.session.exists(znodes.CONTROLLER)
        if stat is not None and stat.ephemeral_owner == self.session.session_id:
            await self.session.delete(znodes.CONTROLLER)

    def lose(self) -> None:
        """Stop fencing writes, because this broker is not the controller any more."""
        self._fence = None

    # Reading

    async def brokers(self, known: Mapping[int, LiveBroker]) -> dict[int, LiveBroker]:
        """Return all registered brokers, and watch registrations.

        A broker whose registration cannot be read is taken from `known`, if its znode has the same czxid; else it is
        left out.
        """
        names = await self._children(znodes.BROKER_IDS)
        ids = [
            read_or_pass_over(f"{znodes.BROKER_IDS}/{name}", znodes.decode_broker_id, name.encode()) for name in names
        ]
        wanted = sorted(each for each in ids if each is not None)
        found = await self.session.get_many([znodes.broker_id_path(each) for each in wanted], watch=True)
        brokers = {}
        for broker_id, znode in zip(wanted, found, strict=True):
            if znode is None:
                continue
            data, stat = znode
            info = read_or_pass_over(znodes.broker_id_path(broker_id), partial(BrokerInfo.decode, broker_id), data)
            if info is not None:
                brokers[broker_id] = LiveBroker(info, stat.czxid)
            elif broker_id in known and known[broker_id].epoch == stat.czxid:
                brokers[broker_id] = known[broker_id]
        return brokers

    async def topic_names(self) -> set[str]:
        """Return all topics, and watch their creation and removal."""
        return set(await self._children(znodes.TOPICS))

    async def topics(self, names: Iterable[str]) -> dict[str, tuple[TopicAssignment, int]]:
        """Return topics' assignments with the versions of their znodes, oldest first, and watch them.

        Unreadable ones are left out.
        """
        names = sorted(names)
        found = await self.session.get_many([znodes.topic_path(each) for each in names], watch=True)
        there = [(name, *znode) for name, znode in zip(names, found, strict=True) if znode is not None]
        return {
            name: (assignment, stat.version)
            for name, data, stat in sorted(there, key=lambda each: each[2].czxid)
            if (assignment := read_or_pass_over(znodes.topic_path(name), TopicAssignment.decode, data)) is not None
        }

    async def partition_states(self, partitions: Iterable[TopicPartition]) -> dict[TopicPartition, PartitionState]:
        """Return the states of partitions, without missing and unreadable ones."""
        partitions = list(partitions)
        paths = [znodes.partition_state_path(each) for each in partitions]
        found = await self.session.get_many(paths)
        return {
            partition: state._replace(version=znode[1].version)
            for partition, path, znode in zip(partitions, paths, found, strict=True)
            if znode is not None and (state := read_or_pass_over(path, PartitionState.decode, znode[0])) is not None
        }

    async def topic_configs(self, names: Iterable[str]) -> dict[str, dict[str, str]]:
        """Return the configs of topics; none if they are missing or unreadable."""
        names = list(names)
        paths = [znodes.topic_config_path(each) for each in names]
        found = await self.session.get_many(paths)
        return {
            name: {} if znode is None else read_or_pass_over(path, znodes.decode_config, znode[0]) or {}
            for name, path, znode in zip(names, paths, found, strict=True)
        }

    async def topics_to_delete(self) -> set[str]:
        """Return the topics marked for deletion, and watch for more."""
        return set(await self._children(znodes.DELETE_TOPICS))

    async def wanted_reassignments(self) -> dict[TopicPartition, tuple[int, ...]]:
        """Return the reassignments that old tools wrote, and watch for more."""
        data = await self._watched(znodes.REASSIGN_PARTITIONS)
        decode = znodes.decode_reassignments
        return {} if data is None else read_or_pass_over(znodes.REASSIGN_PARTITIONS, decode, data) or {}

    async def wanted_elections(self) -> set[TopicPartition] | None:
        """Return the partitions of which old tools want preferred leaders, and watch for more.

        None if there is no such znode.
        """
        data = await self._watched(znodes.PREFERRED_REPLICA_ELECTION)
        if data is None:
            return None
        return read_or_pass_over(znodes.PREFERRED_REPLICA_ELECTION, znodes.decode_partitions, data) or set()

    async def notifications(self, below: str, decode: Callable[[bytes], T]) -> tuple[list[str], list[T]]:
        """Return the paths of all notifications below a path, and the content of readable ones; watch for more."""
        paths = await self.notification_paths(below)
        found = await self.session.get_many(paths)
        content = [
            read_or_pass_over(path, decode, znode[0])
            for path, znode in zip(paths, found, strict=True)
            if znode is not None
        ]
        return paths, [each for each in content if each is not None]

    async def notification_paths(self, below: str) -> list[str]:
        """Return the paths of all notifications below a path, and watch for more."""
        return [f"{below}/{name}" for name in sorted(await self._children(below))]

    async def _children(self, path: str) -> list[str]:
        """Return the names of a path's children, and watch them; none if a stranger deleted the path."""
        try:
            return await self.session.children(path, watch=True)
        except NoNodeError:
            await self.session.exists(path, watch=True)
            return []

    async def _watched(self, path: str) -> bytes | None:
        """Return the data of a path, None if it does not exist, and watch it."""
        await self.session.exists(path, watch=True)
        try:
            return (await self.session.get(path))[0]
        except NoNodeError:
            return None

    # Writing

    async def enable_feature_versioning(self) -> None:
        """Write /feature, once for a cluster."""
        if await self.session.exists(znodes.FEATURE) is None:
            await self._write([[Create(znodes.FEATURE, znodes.encode_no_features())]])

    async def create_topics(self, topics: Sequence[tuple[NewTopic, bytes]]) -> list[StoreError | None]:
        """Write topics with their ids and configs, each in one transaction; return their errors."""
        paths = [znodes.topic_config_path(topic.name) for topic, _ in topics]
        configs = await self.session.get_many(paths)
        steps: list[list[Operation]] = []
        for (topic, topic_id), path, config in zip(topics, paths, configs, strict=True):
            data = znodes.encode_config(topic.configs)
            replicas = {index: ReplicaAssignment(each) for index, each in sorted(topic.assignment.items())}
            steps.append(
                [
                    Create(path, data) if config is None else SetData(path, data),
                    Create(znodes.topic_path(topic.name), TopicAssignment(topic_id, replicas).encode()),
                ]
            )
        errors = [outcome if isinstance(outcome, StoreError) else None for outcome in await self._write(steps)]
        for (topic, topic_id), error in zip(topics, errors, strict=True):
            if error is None:
                id_text, count = uuid_text(topic_id), len(topic.assignment)
                logger.info(
                    "Created topic %s with id %s, %d partitions, configs %s", topic.name, id_text, count, topic.configs
                )
        return errors

    async def set_assignment(self, topic: str, assignment: TopicAssignment, version: int) -> None:
        """Write the assignment of a topic; BadVersionError if its znode has another version."""
        (outcome,) = await self._write([[SetData(znodes.topic_path(topic), assignment.encode(), version)]])
        if isinstance(outcome, StoreError):
            raise outcome

    async def write_states(self, writes: Sequence[StateWrite]) -> tuple[list[StateWrite], list[StateWrite]]:
        """Write partitions' states; return the written ones, with their new versions, and those that conflict."""
        steps: list[list[Operation]] = []
        new = [write for write in writes if write.is_new]
        for topic in dict.fromkeys(write.partition.topic for write in new):
            steps.append([Create(znodes.partitions_path(topic))])
        for write in new:
            steps.append([Create(znodes.partition_path(write.partition))])
        await trio.lowlevel.checkpoint()
        # Parents that exist already are those of an earlier controller.
        parents = len(steps)
        for write in writes:
            path, data = znodes.partition_state_path(write.partition), write.state.encode()
            steps.append([Create(path, data) if write.is_new else SetData(path, data, write.state.version)])
        outcomes = (await self._write(steps))[parents:]
        written, conflicts = [], []
        for write, outcome in zip(writes, outcomes, strict=True):
            if isinstance(outcome, StoreError):
                if not isinstance(outcome, BadVersionError | NodeExistsError | NoNodeError):
                    raise outcome
                conflicts.append(write)
            else:
                stat = outcome[0].stat
                assert stat is not None
                written.append(write._replace(state=write.state._replace(version=stat.version)))
        return written, conflicts

    async def set_wanted_reassignments(self, wanted: Mapping[TopicPartition, Sequence[int]]) -> None:
        """Write the reassignments of old tools that are left; no error if their znode is gone."""
        path = znodes.REASSIGN_PARTITIONS
        await self._ensure([[SetData(path, znodes.encode_reassignments(wanted)) if wanted else Delete(path)]])

    async def delete(self, paths: Iterable[str]) -> None:
        """Delete paths; no error if they are gone."""
        await self._ensure([[Delete(path)] for path in paths])

    async def mark_for_deletion(self, topics: Iterable[str]) -> None:
        """Mark topics for deletion; no error if they are marked."""
        await self._ensure([[Create(znodes.delete_topic_path(topic))] for topic in topics])

    async def remove_topics(self, topics: Iterable[str]) -> None:
        """Delete all znodes of topics, the mark of the deletion last."""
        steps: list[list[Operation]] = []
        for topic in topics:
            steps += [[Delete(path)] for path in await self._below(znodes.topic_path(topic))]
            steps.append([Delete(znodes.topic_config_path(topic))])
            steps.append([Delete(znodes.delete_topic_path(topic))])
            await trio.lowlevel.checkpoint()
        await self._ensure(steps)

    async def _below(self, path: str) -> list[str]:
        """Return the path and all below it, children first."""
        try:
            children = await self.session.children(path)
        except NoNodeError:
            return []
        return [each for child in children for each in await self._below(f"{path}/{child}")] + [path]

    async def _ensure(self, steps: Sequence[Sequence[Operation]]) -> None:
        """Do each step, or find it done; StoreError if that is unknown."""
        for outcome in await self._write(steps):
            if isinstance(outcome, StoreFailedError | SessionExpiredError):
                raise outcome

    async def _write(self, steps: Sequence[Sequence[Operation]]) -> list[Outcome]:
        """Do each step, fenced if this broker is the controller; ControllerMovedError if another one is now."""
        if not steps:
            return []
        # Thousands of steps take a while, so other tasks run in between.
        await trio.lowlevel.checkpoint()
        if self._fence is None:
            return await self.session.multi_all(steps)
        outcomes = await self.session.multi_all([[self._fence, *step] for step in steps])
        found: list[Outcome] = []
        for outcome in outcomes:
            if not isinstance(outcome, StoreError):
                found.append(outcome[1:])
            elif outcome.operation == 0 and isinstance(outcome, BadVersionError | NoNodeError):
                raise ControllerMovedError("another broker was elected since") from outcome
            else:
                found.append(outcome)
        return found
