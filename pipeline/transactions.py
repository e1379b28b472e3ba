"""Where a query writes in transactions, what each of them leaves behind, and whether the brokers have transactions.

Owns the form of the markers: the batch that a task committed last is the offset of a partition, which is the task, in a
group of the query's own. Must not know Spark or records. Counterpart in Kafka: a group's offsets, as
sendOffsetsToTransaction commits them.
"""

import contextlib
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Final, NamedTuple

from kafka import KafkaAdminClient, KafkaConsumer, KafkaProducer
from kafka.errors import KafkaError
from kafka.protocol.api_key import ApiKey
from kafka.structs import OffsetAndMetadata, TopicPartition

from ottla.pipeline.settings import JobError, Settings

_NEEDED: Final = (ApiKey.AddPartitionsToTxn, ApiKey.AddOffsetsToTxn, ApiKey.EndTxn, ApiKey.TxnOffsetCommit)
_OPTION: Final = "kafka."
_OURS: Final = ("transactional_id", "enable_idempotence", "acks", "key_serializer", "value_serializer", "partitioner")


class Batch(NamedTuple):
    """A batch as its query's checkpoint knows it: the query's id there, and the batch's."""

    checkpoint: str
    number: int


class Marker(NamedTuple):
    """What a transaction leaves behind: which batch it was a part of, and how many tasks that had."""

    batch: Batch
    tasks: int

    def as_offset(self) -> OffsetAndMetadata:
        """Return it as it is committed."""
        return OffsetAndMetadata(self.batch.number, f"{self.batch.checkpoint} {self.tasks}", -1)

    @classmethod
    def of_offset(cls, found: OffsetAndMetadata) -> "Marker":
        """Return what was committed."""
        checkpoint, _, tasks = found.metadata.rpartition(" ")
        if not checkpoint or not tasks.isdecimal():
            raise JobError(f"the offset {found.offset} with {found.metadata!r} is no marker of a batch")
        return cls(Batch(checkpoint, found.offset), int(tasks))


@dataclass(frozen=True)
class Target:
    """Where a query writes: kafka-python's settings, the topic whose partitions keep the markers, and all tasks."""

    kafka: Mapping[str, Any]
    topic: str
    query: str
    tasks: int

    @property
    def group(self) -> str:
        """The group that the markers are committed to."""
        return f"{self.query}.batches"

    def marker(self, task: int) -> Marker | None:
        """Return what the task left behind; its next transaction is to be begun, so that nothing is undecided."""
        settings = {**_known_to(KafkaConsumer, self.kafka), "isolation_level": "read_committed"}
        consumer = client(KafkaConsumer, {**settings, "group_id": self.group, "enable_auto_commit": False})
        # A transaction that has ended may still be on its way into the group: what is read as committed waits for that.
        timeout_ms = KafkaProducer.DEFAULT_CONFIG["max_block_ms"]
        try:
            found = consumer.committed(TopicPartition(self.topic, task), metadata=True, timeout_ms=timeout_ms)
        finally:
            consumer.close(autocommit=False)
        return Marker.of_offset(found) if found else None

    def markers(self) -> list[Marker]:
        """Return what all tasks left behind, but for what is undecided."""
        with _admin(self.kafka) as admin:
            found = admin.list_group_offsets({self.group: None})[self.group]
        return [Marker.of_offset(each) for each in found.values() if each.offset >= 0]


def kafka_settings(options: Mapping[str, str]) -> dict[str, Any]:
    """Return those of the options that are kafka-python's, as it wants them: `kafka.bootstrap.servers` and its like."""
    settings: dict[str, Any] = {}
    for option, text in options.items():
        if option.lower().startswith(_OPTION):
            name = option.lower().removeprefix(_OPTION).replace(".", "_")
            if name not in KafkaProducer.DEFAULT_CONFIG or name in _OURS:
                raise JobError(f"option {option} is unknown, or not to be chosen")
            settings[name] = _typed(option, text, KafkaProducer.DEFAULT_CONFIG[name])
    if "bootstrap_servers" not in settings:
        raise JobError("option kafka.bootstrap.servers is missing")
    return settings


def check_transactions(bootstrap: str, options: Mapping[str, str] | None = None) -> None:
    """Raise a JobError unless all brokers have transactions; `options` are further ones (`kafka.security.protocol`)."""
    with _admin(kafka_settings({**(options or {}), "kafka.bootstrap.servers": bootstrap})) as admin:
        for broker in admin.describe_cluster()["brokers"]:
            if broker.get("is_fenced"):
                continue
            known = admin.get_broker_version_data(broker["broker_id"]).api_versions
            missing = [api.name for api in _NEEDED if api not in known]
            if missing:
                address = f"{broker['host']}:{broker['port']}"
                raise JobError(f"the broker at {address} has no transactions (no {', '.join(missing)})")


def client(kind: Any, settings: Mapping[str, Any]) -> Any:
    """Return a client of kafka-python's, or refuse settings that it does not take."""
    try:
        return kind(**settings)
    except KafkaError:
        raise
    except (ValueError, TypeError, RuntimeError) as error:
        raise JobError(f"the options kafka.* are not what kafka-python takes: {error}") from error


def _typed(option: str, text: str, default: object) -> object:
    if isinstance(default, bool):
        return Settings({option: text}, "option").truth(option)
    # The number of retries is infinity unless it is given, the size of a socket's buffer nothing.
    if not isinstance(default, int | float) and not option.lower().endswith(".buffer.bytes"):
        return text
    try:
        return int(text)
    except ValueError:
        raise JobError(f"option {option} is to be a whole number, not {text!r}") from None


def _known_to(client: Any, settings: Mapping[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in settings.items() if name in client.DEFAULT_CONFIG}


@contextlib.contextmanager
def _admin(settings: Mapping[str, Any]) -> Iterator[Any]:
    try:
        admin = client(KafkaAdminClient, _known_to(KafkaAdminClient, settings))
        try:
            yield admin
        finally:
            admin.close()
    except KafkaError as error:
        raise JobError(f"no broker answers at {settings['bootstrap_servers']}: {error}") from error
