"""Every call of stock admin clients that Ottla serves has the same result as with Apache Kafka, also refusals.

The calls are made one after the other on both brokers. Calls that only read are repeated until both results are equal,
because a KRaft broker applies a change some time after its response. test_configs.py has the changes of configs.
Features are left out, because without KRaft there are none.
"""

import contextlib
import time
from collections.abc import Callable, Iterator
from typing import Any

import confluent_kafka
import confluent_kafka.admin
import kafka
import kafka.admin
import pytest
from confluent_kafka.admin import AdminClient

from compat_tests.support.brokers import ApacheKafka, Broker, Ottla, running
from compat_tests.support.clients import PATIENCE_S

pytestmark = pytest.mark.slow

# Their types do not tell what they export.
librdkafka: Any = confluent_kafka
rd_admin: Any = confluent_kafka.admin
python: Any = kafka
py_admin: Any = kafka.admin

TRIES = 50
# Values that differ between all brokers.
OWN = {"cluster_id", "host", "port", "topic_id", "throttle_time_ms", "log_dir", "last_timestamp", "total_bytes"}
OWN |= {"usable_bytes", "producer_id", "orig_broker_name"}
# Configs that Kafka 4.0 dropped, one with another default there, and one that 4.1 sets for each new cluster.
OWN |= {"message.downconversion.enable", "message.format.version", "message.timestamp.difference.max.ms"}
OWN |= {"message.timestamp.after.max.ms", "min.insync.replicas"}
# Fields of API versions that Ottla does not have.
OWN |= {"is_cordoned", "is_fenced"}
SET = rd_admin.AlterConfigOpType.SET

Call = Callable[[Any], Any]


class Librdkafka(AdminClient):
    """An admin client with its bootstrap address."""

    def __init__(self, bootstrap: str) -> None:
        super().__init__({"bootstrap.servers": bootstrap})
        self.bootstrap = bootstrap


def part(topic: str, index: int) -> Any:
    return python.TopicPartition(topic, index)


KAFKA_PYTHON: dict[str, Call] = {
    "create_topics": lambda admin: admin.create_topics(
        [
            py_admin.NewTopic("py", 2, 1, topic_configs={"retention.ms": "-1"}),
            py_admin.NewTopic("py-assigned", -1, -1, replica_assignments={0: [1], 1: [1]}),
            py_admin.NewTopic("py-default", -1, -1),
        ]
    ),
    "create_topics, refused": lambda admin: admin.create_topics(
        [
            py_admin.NewTopic("py", 1, 1),
            py_admin.NewTopic("py/bad", 1, 1),
            py_admin.NewTopic("py-none", 0, 1),
            py_admin.NewTopic("py-config", 1, 1, topic_configs={"bogus": "1"}),
            py_admin.NewTopic("py-unknown", -1, -1, replica_assignments={0: [7]}),
        ],
        raise_errors=False,
    ),
    "create_topics, validate_only": lambda admin: admin.create_topics(
        [py_admin.NewTopic("py-not", 3, 1)], validate_only=True
    ),
    "wait_for_topics": lambda admin: admin.wait_for_topics(["py", "py-assigned", "py-default"]),
    "list_topics": lambda admin: sorted(admin.list_topics()),
    "describe_topics": lambda admin: admin.describe_topics(["py", "py-gone"]),
    "describe_topic_partitions": lambda admin: admin.describe_topic_partitions(["py", "py-assigned", "py-gone"]),
    "describe_topic_partitions, one": lambda admin: admin.describe_topic_partitions(["py"], response_partition_limit=1),
    "create_partitions": lambda admin: admin.create_partitions({"py-default": py_admin.NewPartitions(3)}),
    "create_partitions, refused": lambda admin: admin.create_partitions(
        {
            "py": py_admin.NewPartitions(1),
            "py-gone": py_admin.NewPartitions(2),
            "py-assigned": py_admin.NewPartitions(3, [[7]]),
        },
        raise_errors=False,
    ),
    "create_partitions, validate_only": lambda admin: admin.create_partitions(
        {"py": py_admin.NewPartitions(5)}, validate_only=True
    ),
    "produce": lambda admin: produce(admin.config["bootstrap_servers"], "py"),
    "list_partition_offsets": lambda admin: [
        admin.list_partition_offsets({part("py", 0): spec, part("py", 1): spec})
        for spec in (
            py_admin.OffsetSpec.LATEST,
            py_admin.OffsetSpec.EARLIEST,
            py_admin.OffsetSpec.MAX_TIMESTAMP,
            py_admin.OffsetSpec.EARLIEST_LOCAL,
            py_admin.OffsetSpec.LATEST_TIERED,
            py_admin.OffsetTimestamp(1_700_000_002_000),
        )
    ],
    "describe_producers": lambda admin: admin.describe_producers([part("py", 0), part("py", 1)]),
    "describe_producers, refused": lambda admin: admin.describe_producers([part("py-gone", 0)], broker_id=1),
    "describe_log_dirs": lambda admin: admin.describe_log_dirs(),
    "describe_log_dirs, one": lambda admin: admin.describe_log_dirs({"py": [0, 7]}),
    "elect_leaders": lambda admin: admin.elect_leaders(0, {"py": [0, 1]}),
    "elect_leaders, refused": lambda admin: admin.elect_leaders(1, {"py": [7], "py-gone": [0]}, raise_errors=False),
    "elect_leaders, all": lambda admin: admin.elect_leaders(0),
    "list_partition_reassignments": lambda admin: admin.list_partition_reassignments(),
    "list_partition_reassignments, one": lambda admin: admin.list_partition_reassignments({"py": [0]}),
    "describe_configs": lambda admin: admin.describe_configs([py_admin.ConfigResource("topic", "py")]),
    "describe_configs, refused": lambda admin: admin.describe_configs([py_admin.ConfigResource("topic", "py-gone")]),
    "delete_records": lambda admin: admin.delete_records({part("py", 0): 2}),
    "delete_records, refused": lambda admin: admin.delete_records({part("py", 0): 9}),
    "describe_cluster": lambda admin: admin.describe_cluster(),
    "delete_topics": lambda admin: admin.delete_topics(["py-assigned"]),
    "delete_topics, refused": lambda admin: admin.delete_topics(["py-gone", "py-default"], raise_errors=False),
    "list_topics again": lambda admin: sorted(admin.list_topics()),
}


def new(topic: str, partitions: int = 1, **more: Any) -> Any:
    return rd_admin.NewTopic(topic, partitions, **more)


def rd_part(topic: str, index: int, *offset: int) -> Any:
    return librdkafka.TopicPartition(topic, index, *offset)


def resource(kind: str, name: str, *configs: tuple[str, str]) -> Any:
    entries = [rd_admin.ConfigEntry(key, value, incremental_operation=SET) for key, value in configs]
    return rd_admin.ConfigResource(rd_admin.ResourceType[kind], name, incremental_configs=entries or None)


LIBRDKAFKA: dict[str, Call] = {
    "create_topics": lambda admin: admin.create_topics(
        [
            new("rd", 2, config={"retention.ms": "-1"}),
            new("rd-assigned", 2, replica_assignment=[[1], [1]]),
            new("rd-default", -1),
            new("rd/bad"),
            new("rd-many", 1, replication_factor=0),
            new("rd-config", config={"bogus": "1"}),
            new("rd-unknown", replica_assignment=[[7]]),
        ]
    ),
    "create_topics, refused": lambda admin: admin.create_topics([new("rd", 2)]),
    "create_topics, validate_only": lambda admin: admin.create_topics([new("rd-not")], validate_only=True),
    "list_topics": lambda admin: admin.list_topics(timeout=PATIENCE_S),
    "list_topics, one": lambda admin: admin.list_topics("rd", timeout=PATIENCE_S),
    "describe_topics": lambda admin: admin.describe_topics(
        librdkafka.TopicCollection(["rd", "rd-assigned", "rd-gone"]), include_authorized_operations=True
    ),
    "create_partitions": lambda admin: admin.create_partitions(
        [rd_admin.NewPartitions("rd-default", 3), rd_admin.NewPartitions("rd", 1), rd_admin.NewPartitions("rd-gone", 2)]
    ),
    "create_partitions, assigned": lambda admin: admin.create_partitions(
        [
            rd_admin.NewPartitions("rd-assigned", 3, replica_assignment=[[1]]),
            rd_admin.NewPartitions("rd-default", 4, replica_assignment=[[7]]),
        ]
    ),
    "produce": lambda admin: produce(admin.bootstrap, "rd"),
    "list_offsets": lambda admin: [
        admin.list_offsets({rd_part("rd", 0): spec, rd_part("rd", 1): spec, rd_part("rd", 7): spec})
        for spec in (
            rd_admin.OffsetSpec.latest(),
            rd_admin.OffsetSpec.earliest(),
            rd_admin.OffsetSpec.max_timestamp(),
            rd_admin.OffsetSpec.for_timestamp(1_700_000_002_000),
        )
    ],
    "elect_leaders": lambda admin: admin.elect_leaders(
        librdkafka.ElectionType.PREFERRED, [rd_part("rd", 0), rd_part("rd", 7), rd_part("rd-gone", 0)]
    ),
    "elect_leaders, all": lambda admin: admin.elect_leaders(librdkafka.ElectionType.UNCLEAN),
    "incremental_alter_configs": lambda admin: admin.incremental_alter_configs(
        [
            resource("TOPIC", "rd", ("segment.ms", "7200000")),
            resource("TOPIC", "rd-default", ("segment.ms", "x")),
            resource("TOPIC", "rd-gone", ("segment.ms", "7200000")),
        ]
    ),
    "describe_configs": lambda admin: admin.describe_configs([resource("TOPIC", "rd"), resource("TOPIC", "rd-gone")]),
    "delete_records": lambda admin: admin.delete_records([rd_part("rd", 0, 2), rd_part("rd", 1, 9)]),
    "describe_cluster": lambda admin: admin.describe_cluster(include_authorized_operations=True),
    "delete_topics": lambda admin: admin.delete_topics(["rd-assigned", "rd-gone"]),
    "list_topics again": lambda admin: admin.list_topics(timeout=PATIENCE_S),
}


def produce(bootstrap: str, topic: str) -> None:
    producer = kafka.KafkaProducer(bootstrap_servers=bootstrap)
    for number in range(5):
        producer.send(topic, b"v", partition=0, timestamp_ms=1_700_000_000_000 + number * 1000).get(PATIENCE_S)
    producer.close(PATIENCE_S)


def plain(value: Any) -> Any:
    """Return an answer as data to compare, without values that differ between all brokers."""
    if hasattr(value, "result") and hasattr(value, "exception"):
        value = value.exception(PATIENCE_S) or value.result()
    if isinstance(value, confluent_kafka.KafkaException):
        value = value.args[0]
    if isinstance(value, confluent_kafka.KafkaError):
        return value.name(), value.str()
    if isinstance(value, BaseException):
        return type(value).__name__, str(value)
    if isinstance(value, dict):
        named = {str(key): each for key, each in value.items() if key not in OWN}
        return {key: plain(named[key]) for key in sorted(named)}
    if hasattr(value, "to_dict"):
        return plain(value.to_dict())
    if isinstance(value, tuple):
        return [plain(each) for each in value]
    if isinstance(value, list | set | frozenset):
        return sorted((plain(each) for each in value), key=str)
    if value is None or isinstance(value, str | int | float | bytes):
        return value
    names = [name for name in dir(value) if not name.startswith("_") and not callable(getattr(value, name))]
    return {name: plain(getattr(value, name)) for name in names if name not in OWN}


def answer(admin: Any, call: Call) -> Any:
    try:
        return plain(call(admin))
    except (kafka.errors.KafkaError, confluent_kafka.KafkaException) as error:
        return plain(error)


def same_answers(calls: dict[str, Call], ottla: Any, apache_kafka: Any) -> None:
    for name, call in calls.items():
        for _ in range(TRIES if name.startswith(("describe", "list")) else 1):
            answers = answer(ottla, call), answer(apache_kafka, call)
            if answers[0] == answers[1]:
                break
            time.sleep(0.1)
        assert (name, answers[0]) == (name, answers[1])


@pytest.fixture(scope="module")
def brokers() -> Iterator[list[Broker]]:
    with contextlib.ExitStack() as stack:
        yield [stack.enter_context(running(kind, ["node.id=1"])) for kind in (Ottla, ApacheKafka)]


def test_kafka_python_is_answered_alike(brokers: list[Broker]) -> None:
    admins = [py_admin.KafkaAdminClient(bootstrap_servers=broker.bootstrap) for broker in brokers]
    same_answers(KAFKA_PYTHON, *admins)
    for admin in admins:
        admin.close()


def test_librdkafka_is_answered_alike(brokers: list[Broker]) -> None:
    same_answers(LIBRDKAFKA, *(Librdkafka(broker.bootstrap) for broker in brokers))
