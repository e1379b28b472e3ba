"""Offsets as a broker knows them: where topics begin and end, and how far a job is, as a consumer group of its own.

Owns the admin client. Must not know checkpoints, nor Spark. Counterparts in Kafka: the offsets that Connect's sink
tasks commit, ConsumerGroupCommand's --reset-offsets.
"""

import socket
import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager, suppress
from types import MappingProxyType
from typing import Any, Final, NamedTuple, TypeAlias

from ottla.pipeline.checkpoint import Offsets

Partition: TypeAlias = tuple[str, int]

EARLIEST: Final = -2
LATEST: Final = -1
_PATIENCE_MS: Final = 10_000
_AGAIN_AFTER_S: Final = 0.25
_NOTHING_SO_LATE: Final = -1
# The client's words.
_OF_TOPIC: Final = "DYNAMIC_TOPIC_CONFIG"
_DONE: Final = "OK"


class UnreachableError(Exception):
    """A broker that does not answer, or not as it should; the text is one line."""


class NoTopicError(UnreachableError):
    """A topic that is not there, which waiting does not change."""


class Config(NamedTuple):
    """A config of a topic; `is_own`: it was set for this topic, and is no default of its broker's."""

    value: str
    is_own: bool


class Positions:
    """Asks one cluster."""

    def __init__(self, bootstrap: str) -> None:
        self.bootstrap = bootstrap
        # Not above: whoever only reads a job file need not wait for it.
        from kafka.admin import KafkaAdminClient

        _reach(bootstrap)
        with self._told():
            self._admin: Any = KafkaAdminClient(
                bootstrap_servers=bootstrap.split(","), client_id="ottla-pipeline", request_timeout_ms=_PATIENCE_MS
            )

    def close(self) -> None:
        """Give the connections up."""
        self._admin.close()

    def commit(self, group: str, offsets: Offsets, patience_s: float = 0.0) -> None:
        """Say how far a group is, which nobody may be a member of. A coordinator may take a while to be there."""
        _patiently(lambda: self._commit(group, offsets), patience_s)

    def _commit(self, group: str, offsets: Offsets) -> None:
        from kafka.errors import NoError, UnknownTopicOrPartitionError
        from kafka.structs import OffsetAndMetadata

        with self._told():
            wanted = {each: OffsetAndMetadata(offset, "", -1) for each, offset in _partitions(offsets)}
            if not wanted:
                return
            for partition, error in self._admin.alter_group_offsets(group, wanted).items():
                if error is not NoError:
                    kind = NoTopicError if error is UnknownTopicOrPartitionError else UnreachableError
                    raise kind(
                        f"{self.bootstrap}: {group} cannot commit {partition.topic}-{partition.partition}: "
                        f"{error.__name__}"
                    )

    def forget(self, group: str, patience_s: float = 0.0) -> None:
        """Have nothing of a group, if there is one."""
        _patiently(lambda: self._forget(group), patience_s)

    def _forget(self, group: str) -> None:
        with self._told():
            answer = self._admin.delete_groups([group])[group]
        if answer not in ("OK", "GroupIdNotFoundError"):
            raise UnreachableError(f"{self.bootstrap}: {group} cannot be deleted: {answer}")

    def topics(self) -> list[str]:
        """The names of all topics but the brokers' own, which no regular expression means."""
        with self._told():
            return sorted(each["name"] for each in self._admin.describe_topics() if not each["is_internal"])

    def partitions(self, topics: Iterable[str]) -> list[Partition]:
        """All partitions of topics that have to be there."""
        with self._told():
            described = {each["name"]: each for each in self._admin.describe_topics(list(topics))}
            missing = [name for name in topics if described.get(name, {"error_code": 3})["error_code"]]
            if missing:
                raise UnreachableError(f"{self.bootstrap} has no topic {', '.join(missing)}")
            return [
                (name, each["partition_index"]) for name, topic in described.items() for each in topic["partitions"]
            ]

    def create(
        self,
        topic: str,
        partitions: int,
        configs: Mapping[str, str] = MappingProxyType({}),
        replication_factor: int = -1,
    ) -> None:
        """Create a topic unless it is there; -1 has the broker say how many replicas it has."""
        from kafka.admin import NewTopic
        from kafka.errors import TopicAlreadyExistsError

        with self._told(), suppress(TopicAlreadyExistsError):
            self._admin.create_topics([NewTopic(topic, partitions, replication_factor, topic_configs=dict(configs))])

    def widen(self, topic: str, partitions: int) -> None:
        """Have a topic that is there, or is about to be, with so many partitions if it has fewer."""
        _patiently(lambda: self._widen(topic, partitions), _PATIENCE_MS / 1000)

    def _widen(self, topic: str, partitions: int) -> None:
        found = len(self.partitions([topic]))
        if found < partitions:
            with self._told():
                self._admin.create_partitions({topic: partitions})
            raise UnreachableError(f"{self.bootstrap}: {topic} has {found} partitions, not {partitions}")

    def configs(self, topics: Iterable[str]) -> dict[str, dict[str, Config]]:
        """The configs of topics that have to be there, or are about to be: all that count, set or not."""
        found: dict[str, dict[str, Config]] = {}
        _patiently(lambda: found.update(self._configs(sorted(topics))), _PATIENCE_MS / 1000)
        return found

    def _configs(self, topics: list[str]) -> dict[str, dict[str, Config]]:
        from kafka.admin import ConfigResource

        if not topics:
            return {}
        with self._told():
            wanted = [ConfigResource("TOPIC", topic) for topic in topics]
            described = self._admin.describe_configs(wanted, config_filter="all")["topic"]
        for topic in topics:
            if not described.get(topic):
                # The client leaves out why.
                raise UnreachableError(f"{self.bootstrap} does not tell the configs of {topic}")
        return {
            topic: {
                key: Config(each["value"], is_own=each["config_source"] == _OF_TOPIC)
                for key, each in of.items()
                if each["value"] is not None
            }
            for topic, of in described.items()
        }

    def alter_configs(self, topic: str, changes: Mapping[str, str | None]) -> str | None:
        """Set configs of a topic, or with None have it use its broker's; return why that is refused, if it is."""
        from kafka.admin import ConfigResource

        entries = {key: ("DELETE", None) if value is None else ("SET", value) for key, value in changes.items()}
        with self._told():
            wanted = [ConfigResource("TOPIC", topic, configs=entries)]
            answer = self._admin.alter_configs(wanted, raise_on_unknown=False)["topic"][topic]
        return None if answer == _DONE else str(answer)

    def at(self, times: Mapping[Partition, int]) -> dict[Partition, int]:
        """Offsets at times in milliseconds, or EARLIEST or LATEST; the end where nothing is so late."""
        found = self._listed(times)
        late = [each for each, offset in found.items() if offset == _NOTHING_SO_LATE]
        return found | self._listed(dict.fromkeys(late, LATEST))

    def lag(self, offsets: Offsets) -> int:
        """How many offsets are between these and the ends."""
        places = {(each.topic, each.partition): offset for each, offset in _partitions(offsets)}
        ends = self._listed(dict.fromkeys(places, LATEST))
        return sum(max(0, end - places[each]) for each, end in ends.items())

    def _listed(self, times: Mapping[Partition, int]) -> dict[Partition, int]:
        from kafka import TopicPartition

        with self._told():
            asked = {TopicPartition(*each): time for each, time in times.items()}
            found = self._admin.list_partition_offsets(asked) if asked else {}
            return {(each.topic, each.partition): answer.offset for each, answer in found.items()}

    @contextmanager
    def _told(self) -> Iterator[None]:
        from kafka.errors import BrokerResponseError, KafkaError

        try:
            yield
        except BrokerResponseError as error:
            raise UnreachableError(f"{self.bootstrap} refuses: {error!s}".replace("\n", " ")) from None
        except (KafkaError, OSError) as error:
            raise UnreachableError(f"{self.bootstrap} does not answer: {error!s}".replace("\n", " ")) from None


def _patiently(work: Callable[[], None], patience_s: float) -> None:
    deadline = time.monotonic() + patience_s
    while True:
        try:
            work()
            return
        except UnreachableError as error:
            if isinstance(error, NoTopicError) or time.monotonic() >= deadline:
                raise
            time.sleep(_AGAIN_AFTER_S)


def by_topic(offsets: Mapping[Partition, int]) -> Offsets:
    """The same offsets, as checkpoints have them."""
    found: Offsets = {}
    for (topic, partition), offset in offsets.items():
        found.setdefault(topic, {})[str(partition)] = offset
    return found


def _reach(bootstrap: str) -> None:
    """Refuse brokers of which none listens: the client would try for half a minute."""
    reason: object = "no address is given"
    for address in bootstrap.split(","):
        host, _, port = address.strip().rpartition(":")
        try:
            with socket.create_connection((host.strip("[]"), int(port)), _PATIENCE_MS / 1000):
                return
        except (OSError, ValueError) as error:
            reason = error
    raise UnreachableError(f"{bootstrap} does not answer: {reason}")


def _partitions(offsets: Mapping[str, Mapping[str, int]]) -> list[tuple[Any, int]]:
    from kafka import TopicPartition

    return [
        (TopicPartition(topic, int(partition)), offset)
        for topic, of in offsets.items()
        for partition, offset in of.items()
    ]
