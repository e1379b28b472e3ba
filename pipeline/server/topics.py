"""The compacted topics: one has what is wanted, one has how it is. Written to, and read as long as the server lives.

Must not know what the records mean. Counterparts in Kafka: KafkaBasedLog, TopicAdmin.
"""

import contextlib
import json
import logging
import queue
import threading
import time
from collections.abc import Mapping, Sequence
from typing import Any, Final

import kafka
from kafka.admin import ConfigResource, ConfigResourceType
from kafka.errors import KafkaError, TopicAlreadyExistsError

from ottla.pipeline.server.state import Record, State

logger = logging.getLogger(__name__)

START_TIMEOUT_S: Final = 60.0
WRITE_TIMEOUT_S: Final = 30.0
POLL_MS: Final = 200
# So long without anything new from a broker that answers, and the end is taken for reached: what was there last was
# compacted.
QUIET_S: Final = 5.0


class TopicError(Exception):
    """A topic is not as it has to be, or cannot be reached."""


def prepare(
    client: Mapping[str, Any], compacted: Sequence[str], slots_topic: str, slots: int, replication_factor: int
) -> tuple[str, int]:
    """Make the topics that are missing, and refuse those that would lose records; return the cluster's id and slots."""
    admin = kafka.KafkaAdminClient(**client)
    try:
        for topic, partitions in [*((topic, 1) for topic in compacted), (slots_topic, slots)]:
            _make(admin, topic, partitions, replication_factor)
        admin.wait_for_topics([*compacted, slots_topic])
        partitions_of = {each["name"]: len(each["partitions"]) for each in admin.describe_topics()}
        resources = [ConfigResource(ConfigResourceType.TOPIC, topic) for topic in compacted]
        configs = admin.describe_configs(resources, config_filter="all")["topic"]
        for topic in compacted:
            policy = configs[topic]["cleanup.policy"]["value"]
            if partitions_of[topic] != 1:
                raise TopicError(f"topic {topic} has {partitions_of[topic]} partitions; it is to have one")
            if policy != "compact":
                raise TopicError(f"topic {topic} has cleanup.policy={policy}; it is to be compact")
        return str(admin.describe_cluster()["cluster_id"]), partitions_of[slots_topic]
    finally:
        admin.close()


def _make(admin: kafka.KafkaAdminClient, topic: str, partitions: int, replication_factor: int) -> None:
    configs = {"cleanup.policy": "compact"}
    wanted = {"num_partitions": partitions, "replication_factor": replication_factor, "configs": configs}
    with contextlib.suppress(TopicAlreadyExistsError):
        admin.create_topics({topic: wanted})
        logger.info("made the topic %s", topic)


def _limits() -> dict[str, int]:
    """What would be written later than its writer waits for it is not to be written at all."""
    return {"max_block_ms": int(WRITE_TIMEOUT_S * 1000), "delivery_timeout_ms": int(WRITE_TIMEOUT_S * 1000)}


class Topics:
    """Both topics, and what they come to."""

    def __init__(self, client: Mapping[str, Any], config_topic: str, status_topic: str) -> None:
        self.state = State()
        self._configs = kafka.TopicPartition(config_topic, 0)
        self._statuses = kafka.TopicPartition(status_topic, 0)
        self._next = {self._configs: 0, self._statuses: 0}
        self._outbox: queue.SimpleQueue[Record | None] = queue.SimpleQueue()
        self._is_stopping = threading.Event()
        self._reader = threading.Thread(target=self._read, name="reader", daemon=True)
        self._writer = threading.Thread(target=self._write, name="writer", daemon=True)
        self._producer = kafka.KafkaProducer(**client, acks="all", **_limits())
        self._consumer = kafka.KafkaConsumer(
            **client, group_id=None, enable_auto_commit=False, auto_offset_reset="earliest"
        )

    def start(self) -> None:
        """Return when all that is in the topics now has been read; go on reading."""
        both = [self._configs, self._statuses]
        self._consumer.assign(both)
        self._consumer.seek_to_beginning(*both)
        ends = self._consumer.end_offsets(both)
        deadline = time.monotonic() + START_TIMEOUT_S
        quiet_since = time.monotonic()
        while not all(self._next[each] >= ends[each] for each in both):
            if self._poll():
                quiet_since = time.monotonic()
            elif time.monotonic() - quiet_since > QUIET_S:
                # Fails where nobody answers.
                self._consumer.end_offsets(both)
                break
            if time.monotonic() > deadline:
                raise TopicError(f"{self._configs.topic} could not be read within {START_TIMEOUT_S:.0f} s")
        self._reader.start()
        self._writer.start()

    def write(self, records: Sequence[Record]) -> None:
        """Write what is wanted; return when it has been read back."""
        try:
            sent = [self._send(self._configs, record) for record in records]
            last = max(each.get(timeout=WRITE_TIMEOUT_S).offset for each in sent)
        except KafkaError as error:
            raise TopicError(f"{self._configs.topic} could not be written to: {error}") from error
        with self.state.changed:
            if not self.state.changed.wait_for(lambda: self._next[self._configs] > last, WRITE_TIMEOUT_S):
                raise TopicError(f"{self._configs.topic} could not be read within {WRITE_TIMEOUT_S:.0f} s")

    def say(self, record: Record) -> None:
        """Have a status written, some time soon."""
        self._outbox.put(record)

    @property
    def is_alive(self) -> bool:
        """Whether the topics are read and written to."""
        return self._reader.is_alive() and self._writer.is_alive()

    def stop(self) -> None:
        """Write what is left to be written; then end."""
        self._outbox.put(None)
        self._writer.join()
        self._producer.close(timeout=WRITE_TIMEOUT_S)
        self._is_stopping.set()
        self._reader.join()
        self._consumer.close()

    def _send(self, partition: kafka.TopicPartition, record: Record) -> Any:
        key, value = record
        content = None if value is None else json.dumps(value).encode()
        return self._producer.send(partition.topic, key=key.encode(), value=content, partition=partition.partition)

    def _write(self) -> None:
        while (record := self._outbox.get()) is not None:
            try:
                self._send(self._statuses, record)
            except KafkaError as error:
                logger.warning("%s could not be written to: %s", self._statuses.topic, error)

    def _read(self) -> None:
        while not self._is_stopping.is_set():
            self._poll()

    def _poll(self) -> bool:
        """Take in what there is; return whether anything came."""
        try:
            polled = self._consumer.poll(timeout_ms=POLL_MS)
        except KafkaError as error:
            logger.warning("the topics of the jobs cannot be read: %s", error)
            self._is_stopping.wait(1)
            return False
        for partition, records in polled.items():
            for record in records:
                self.state.apply((record.key or b"").decode(errors="replace"), record.value, record.offset)
                with self.state.changed:
                    self._next[partition] = record.offset + 1
                    self.state.changed.notify_all()
        return bool(polled)
