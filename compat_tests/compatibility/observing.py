"""A broker's state, read and changed by librdkafka, for trials of all clients."""

import time
from collections.abc import Mapping
from typing import Any

import confluent_kafka
import confluent_kafka.admin

from compat_tests.support.clients import PATIENCE_S, create_topic

# Their types do not tell what they export.
librdkafka: Any = confluent_kafka
rd_admin: Any = confluent_kafka.admin

PAUSE_S = 0.02
STARTING = (librdkafka.KafkaError.NOT_COORDINATOR, librdkafka.KafkaError.COORDINATOR_LOAD_IN_PROGRESS)


class Observer:
    """A client of a broker, for all trials on it."""

    def __init__(self, bootstrap: str) -> None:
        self.bootstrap = bootstrap
        self._admin = rd_admin.AdminClient({"bootstrap.servers": bootstrap, "log_level": 0})

    def create_topic(self, topic: str, partitions: int, configs: dict[str, str]) -> None:
        """Create a topic and wait until it has leaders."""
        create_topic(self.bootstrap, topic, partitions, configs)

    def partitions(self, topic: str) -> int:
        """Return a topic's partition count, or 0 if it does not exist."""
        found = self._admin.list_topics(timeout=PATIENCE_S).topics.get(topic)
        return len(found.partitions) if found else 0

    def configs(self, topic: str, *keys: str) -> dict[str, str]:
        """Return configs of a topic."""
        resource = rd_admin.ConfigResource(rd_admin.ResourceType.TOPIC, topic)
        (found,) = self._admin.describe_configs([resource]).values()
        values = found.result(PATIENCE_S)
        return {key: values[key].value for key in keys}

    def earliest(self, topic: str) -> int:
        """Return the first offset of partition 0."""
        return self._offset(topic, rd_admin.OffsetSpec.earliest())

    def latest(self, topic: str) -> int:
        """Return the offset after the last record of partition 0."""
        return self._offset(topic, rd_admin.OffsetSpec.latest())

    def _offset(self, topic: str, spec: Any) -> int:
        (found,) = self._admin.list_offsets({librdkafka.TopicPartition(topic, 0): spec}).values()
        return int(found.result(PATIENCE_S).offset)

    def write_at(self, topic: str, values: Mapping[int, str], key: str | None = None) -> None:
        """Write values with timestamps to partition 0."""
        producer = librdkafka.Producer({"bootstrap.servers": self.bootstrap, "log_level": 0})
        for timestamp, value in values.items():
            producer.produce(topic, key=key, value=value, partition=0, timestamp=timestamp)
        assert producer.flush(PATIENCE_S) == 0

    def read(self, topic: str) -> list[tuple[str, str]]:
        """Return the current keys and values of partition 0."""
        consumer = self._consumer("observer")
        consumer.assign([librdkafka.TopicPartition(topic, 0, 0)])
        found = []
        while not ((each := consumer.poll(PATIENCE_S)).error()):
            found.append((each.key().decode(), each.value().decode()))
        consumer.close()
        return found

    def _consumer(self, group: str) -> Any:
        settings = {"bootstrap.servers": self.bootstrap, "group.id": group, "enable.partition.eof": True}
        return librdkafka.Consumer({**settings, "enable.auto.commit": False, "log_level": 0})

    def groups(self) -> list[str]:
        """Return the names of all groups."""
        return [each.group_id for each in self._admin.list_consumer_groups().result(PATIENCE_S).valid]

    def group_type(self, group: str) -> str:
        """Return a group's protocol: `CLASSIC` or `CONSUMER`, or `UNKNOWN` if the broker has only one."""
        found = self._admin.list_consumer_groups().result(PATIENCE_S).valid
        return next(str(each.type.name) for each in found if each.group_id == group)

    def commit(self, group: str, topic: str, offset: int) -> None:
        """Commit an offset of partition 0, without joining the group."""
        consumer = self._consumer(group)
        wanted = [librdkafka.TopicPartition(topic, 0, offset)]
        while not _has_committed(consumer, wanted):
            time.sleep(PAUSE_S)
        consumer.close()

    def committed(self, group: str, topic: str) -> int | None:
        """Return a group's committed offset of partition 0."""
        consumer = self._consumer(group)
        (found,) = consumer.committed([librdkafka.TopicPartition(topic, 0)], timeout=PATIENCE_S)
        consumer.close()
        return int(found.offset) if found.offset >= 0 else None

    def add_scram_user(self, user: str, mechanism: str, password: str) -> None:
        """Create a user's credential, and wait until it exists."""
        kind = rd_admin.ScramMechanism[mechanism.replace("-", "_")]
        info = rd_admin.ScramCredentialInfo(kind, 4096)
        made = rd_admin.UserScramCredentialUpsertion(user, info, password.encode())
        self._admin.alter_user_scram_credentials([made])[user].result(PATIENCE_S)

        def found() -> list[Any]:
            told = self._admin.describe_user_scram_credentials([user])[user].result(PATIENCE_S)
            return [each.mechanism for each in told.scram_credential_infos]

        while kind not in found():
            time.sleep(PAUSE_S)

    def deny_writing(self, user: str, topic: str) -> None:
        """Create an ACL, and wait until it exists."""
        name = (rd_admin.ResourceType.TOPIC, topic, rd_admin.ResourcePatternType.LITERAL)
        what = (f"User:{user}", "*", rd_admin.AclOperation.WRITE, rd_admin.AclPermissionType.DENY)
        (made,) = self._admin.create_acls([rd_admin.AclBinding(*name, *what)]).values()
        made.result(PATIENCE_S)
        while not self._admin.describe_acls(rd_admin.AclBindingFilter(*name, *what)).result(PATIENCE_S):
            time.sleep(PAUSE_S)


def _has_committed(consumer: Any, offsets: list[Any]) -> bool:
    """Commit offsets; return False if there is no coordinator, because a broker has none just after its start."""
    try:
        consumer.commit(offsets=offsets, asynchronous=False)
    except librdkafka.KafkaException as error:
        if error.args[0].code() not in STARTING:
            raise
        return False
    return True
