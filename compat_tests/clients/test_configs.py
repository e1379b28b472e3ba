"""Stock admin clients and Kafka's tool read and change the configs of topics and brokers, and levels of loggers.

Only the tool changes the defaults of all brokers and loggers, because neither library supports them.
"""

import re
import time
from collections.abc import Callable, Iterator
from functools import partial
from typing import Any

import confluent_kafka.admin
import kafka
import pytest
from confluent_kafka import KafkaException
from confluent_kafka.admin import AdminClient
from kafka.admin import ConfigResource, KafkaAdminClient

from compat_tests.support.brokers import Broker, run_tool
from compat_tests.support.clients import PATIENCE_S, create_topic

# Its types do not tell what it exports.
librdkafka: Any = confluent_kafka.admin
TOPIC, BROKER = librdkafka.ResourceType.TOPIC, librdkafka.ResourceType.BROKER
OPERATIONS = librdkafka.AlterConfigOpType
SET, DELETE, APPEND, SUBTRACT = OPERATIONS.SET, OPERATIONS.DELETE, OPERATIONS.APPEND, OPERATIONS.SUBTRACT
# The configs of brokers that tests change, and that are restored after each test.
CHANGED = ("log.retention.ms", "message.max.bytes")

Change = tuple[str, Any, str | None]

pytestmark = pytest.mark.slow


@pytest.fixture
def client(broker: Broker) -> AdminClient:
    return AdminClient({"bootstrap.servers": broker.bootstrap})


@pytest.fixture
def python_client(broker: Broker) -> Iterator[KafkaAdminClient]:
    admin = KafkaAdminClient(bootstrap_servers=broker.bootstrap)
    yield admin
    admin.close()


@pytest.fixture
def broker_id(client: AdminClient, python_client: KafkaAdminClient) -> Iterator[str]:
    """Return the broker's id."""
    (found,) = client.list_topics(timeout=PATIENCE_S).brokers
    yield str(found)
    taken_back = ConfigResource("broker", str(found), dict.fromkeys(CHANGED, ("DELETE", None)))
    python_client.alter_configs([taken_back])


@pytest.fixture
def retention_of_all_brokers(broker: Broker) -> Iterator[str]:
    """Return the default of retention for all brokers and topics."""
    configs_tool(broker, "--broker-defaults", "--alter", "--add-config", "log.retention.ms=86400000")
    yield "86400000"
    configs_tool(broker, "--broker-defaults", "--alter", "--delete-config", "log.retention.ms")


def configs_tool(broker: Broker, *arguments: str) -> list[str]:
    """Return the output of Kafka's tool; fail if the tool fails."""
    return run_tool("kafka.admin.ConfigCommand", "--bootstrap-server", broker.bootstrap, *arguments).splitlines()


def alter(client: AdminClient, kind: Any, name: str, *changes: Change, validate_only: bool = False) -> None:
    entries = [librdkafka.ConfigEntry(key, value, incremental_operation=operation) for key, operation, value in changes]
    wanted = librdkafka.ConfigResource(kind, name, incremental_configs=entries)
    for future in client.incremental_alter_configs([wanted], validate_only=validate_only).values():
        future.result(PATIENCE_S)


def replace(client: AdminClient, kind: Any, name: str, configs: dict[str, str]) -> None:
    with pytest.warns(DeprecationWarning, match="alter_configs"):
        futures = client.alter_configs([librdkafka.ConfigResource(kind, name, set_config=configs)]).values()
    for future in futures:
        future.result(PATIENCE_S)


def eventually(look: Callable[[], object], expected: object) -> None:
    """Repeat `look` until it returns `expected`, because a KRaft broker applies a change after its response."""
    deadline = time.monotonic() + PATIENCE_S
    while (found := look()) != expected and time.monotonic() < deadline:
        time.sleep(0.05)
    assert found == expected


def told(client: AdminClient, kind: Any, name: str, key: str) -> tuple[str, str]:
    """Return a config's value and source, by librdkafka."""
    (future,) = client.describe_configs([librdkafka.ConfigResource(kind, name)]).values()
    config = future.result(PATIENCE_S)[key]
    return config.value, librdkafka.ConfigSource(config.source).name


def synonyms(client: KafkaAdminClient, kind: str, name: str, key: str) -> list[tuple[str, str, str]]:
    """Return all values of a config, by kafka-python."""
    asked = ConfigResource(kind, name, [key])
    described = client.describe_configs([asked], include_synonyms=True, config_filter="all")
    return [(each["name"], each["value"], each["source"]) for each in described[kind][name][key]["synonyms"]]


def first_synonym(client: KafkaAdminClient, kind: str, name: str, key: str) -> tuple[str, str, str] | None:
    """Return the effective value; None if it is a default whose key has another name."""
    return next(iter(synonyms(client, kind, name, key)), None)


def refusal(client: AdminClient, kind: Any, name: str, *changes: Change) -> tuple[str, str]:
    with pytest.raises(KafkaException) as caught:
        alter(client, kind, name, *changes)
    return caught.value.args[0].name(), caught.value.args[0].str()


def test_librdkafka_changes_a_topics_configs_singly_and_all(client: AdminClient, broker: Broker, topic: str) -> None:
    create_topic(broker.bootstrap, topic, config={"segment.ms": "9000000"})
    alter(client, TOPIC, topic, ("retention.ms", SET, "7200000"), ("cleanup.policy", APPEND, "compact"))
    eventually(partial(told, client, TOPIC, topic, "retention.ms"), ("7200000", "DYNAMIC_TOPIC_CONFIG"))
    eventually(partial(told, client, TOPIC, topic, "cleanup.policy"), ("delete,compact", "DYNAMIC_TOPIC_CONFIG"))
    alter(client, TOPIC, topic, ("cleanup.policy", SUBTRACT, "delete"), ("segment.ms", DELETE, None))
    eventually(partial(told, client, TOPIC, topic, "cleanup.policy"), ("compact", "DYNAMIC_TOPIC_CONFIG"))
    eventually(partial(told, client, TOPIC, topic, "segment.ms"), ("604800000", "DEFAULT_CONFIG"))
    alter(client, TOPIC, topic, ("retention.ms", SET, "1"), validate_only=True)
    eventually(partial(told, client, TOPIC, topic, "retention.ms"), ("7200000", "DYNAMIC_TOPIC_CONFIG"))
    replace(client, TOPIC, topic, {"max.message.bytes": "5000"})
    eventually(partial(told, client, TOPIC, topic, "max.message.bytes"), ("5000", "DYNAMIC_TOPIC_CONFIG"))
    eventually(partial(told, client, TOPIC, topic, "retention.ms"), ("604800000", "DEFAULT_CONFIG"))


def test_what_a_topic_cannot_have_is_refused(client: AdminClient, broker: Broker, topic: str) -> None:
    create_topic(broker.bootstrap, topic)
    unknown = refusal(client, TOPIC, topic, ("bogus.key", SET, "1"))
    assert unknown == ("INVALID_CONFIG", "Unknown topic config name: bogus.key")
    malformed = refusal(client, TOPIC, topic, ("retention.ms", SET, "x"))
    assert malformed == ("INVALID_CONFIG", "Invalid value x for configuration retention.ms: Not a number of type LONG")
    assert refusal(client, TOPIC, f"{topic}-gone", ("retention.ms", SET, "1"))[0] == "UNKNOWN_TOPIC_OR_PART"


def test_what_is_set_for_a_broker_counts_before_what_is_set_for_all(
    client: AdminClient,
    python_client: KafkaAdminClient,
    broker: Broker,
    broker_id: str,
    topic: str,
    retention_of_all_brokers: str,
) -> None:
    create_topic(broker.bootstrap, topic)
    asked = (("topic", topic, "retention.ms"), ("broker", broker_id, "log.retention.ms"))
    default = ("log.retention.ms", retention_of_all_brokers, "DYNAMIC_DEFAULT_BROKER_CONFIG")
    hours = ("log.retention.hours", "168", "DEFAULT_CONFIG")
    for kind, name, key in asked:
        eventually(partial(synonyms, python_client, kind, name, key), [default, hours])
    alter(client, BROKER, broker_id, ("log.retention.ms", SET, "96400000"))
    for kind, name, key in asked:
        own = ("log.retention.ms", "96400000", "DYNAMIC_BROKER_CONFIG")
        eventually(partial(synonyms, python_client, kind, name, key), [own, default, hours])
    eventually(partial(told, client, TOPIC, topic, "retention.ms"), ("96400000", "DYNAMIC_BROKER_CONFIG"))
    alter(client, BROKER, broker_id, ("log.retention.ms", DELETE, None))
    expected = (retention_of_all_brokers, "DYNAMIC_DEFAULT_BROKER_CONFIG")
    eventually(partial(told, client, TOPIC, topic, "retention.ms"), expected)


def produce(broker: Broker, topic: str, size: int) -> None:
    producer = kafka.KafkaProducer(bootstrap_servers=broker.bootstrap)
    try:
        producer.send(topic, b"x" * size).get(PATIENCE_S)
    finally:
        producer.close(PATIENCE_S)


def test_a_brokers_configs_are_in_effect_at_once(
    client: AdminClient, broker: Broker, broker_id: str, topic: str
) -> None:
    create_topic(broker.bootstrap, topic)
    produce(broker, topic, 1000)
    replace(client, BROKER, broker_id, {"message.max.bytes": "500"})
    eventually(partial(told, client, BROKER, broker_id, "message.max.bytes"), ("500", "DYNAMIC_BROKER_CONFIG"))
    produce(broker, topic, 10)
    with pytest.raises(kafka.errors.MessageSizeTooLargeError):
        produce(broker, topic, 1000)
    alter(client, BROKER, broker_id, ("message.max.bytes", DELETE, None))
    eventually(partial(told, client, BROKER, broker_id, "message.max.bytes"), ("1048588", "DEFAULT_CONFIG"))
    produce(broker, topic, 1000)


def test_what_a_broker_cannot_change_is_refused(client: AdminClient, broker_id: str) -> None:
    exception = "org.apache.kafka.common.config.ConfigException"
    threads = "Dynamic thread count update validation failed for num.io.threads=17"
    for key, value, text in (
        ("log.retention.ms", "x", "Invalid value x for configuration log.retention.ms: Not a number of type LONG"),
        ("log.roll.ms", "0", "requirement failed: log.roll.ms must be greater than or equal to 1"),
        (
            "num.io.threads",
            "17",
            f"Invalid value {exception}: {threads}, value should not be greater than double the current value 8 "
            "for configuration Invalid dynamic configuration",
        ),
        ("broker.rack", "r", "Cannot update these configs dynamically: "),
        ("ssl.keystore.type", "JKS", "These security configs can be dynamically updated only per-listener using the "),
    ):
        found = refusal(client, BROKER, broker_id, (key, SET, value))
        assert found[0] == "INVALID_REQUEST"
        assert found[1].startswith(text)
    assert refusal(client, BROKER, broker_id, ("log.retention.ms", APPEND, "5"))[0] == "INVALID_CONFIG"
    alter(client, BROKER, broker_id, ("num.io.threads", SET, "16"), validate_only=True)
    eventually(partial(told, client, BROKER, broker_id, "num.io.threads"), ("8", "DEFAULT_CONFIG"))


def test_kafka_python_changes_and_resets_configs(
    python_client: KafkaAdminClient, broker: Broker, broker_id: str, topic: str
) -> None:
    create_topic(broker.bootstrap, topic)
    for kind, name, key, source in (
        ("topic", topic, "retention.ms", "DYNAMIC_TOPIC_CONFIG"),
        ("broker", broker_id, "log.retention.ms", "DYNAMIC_BROKER_CONFIG"),
    ):
        for incremental, value in ((True, "86400000"), (False, "96400000")):
            # This client refuses keys that the broker did not declare as changeable.
            wanted = ConfigResource(kind, name, {key: value})
            assert python_client.alter_configs([wanted], incremental=incremental)[kind][name] == "OK"
            eventually(partial(first_synonym, python_client, kind, name, key), (key, value, source))
        python_client.reset_configs([ConfigResource(kind, name, [key])])
        eventually(partial(first_synonym, python_client, kind, name, key), None)


def test_kafkas_tool_changes_configs_and_tells_them(
    broker: Broker, broker_id: str, topic: str, retention_of_all_brokers: str
) -> None:
    tool = partial(configs_tool, broker)
    create_topic(broker.bootstrap, topic)
    changed = tool("--topic", topic, "--alter", "--add-config", "segment.ms=7200000,cleanup.policy=[compact,delete]")
    assert changed == [f"Completed updating config for topic {topic}."]
    assert tool("--topic", topic, "--alter", "--delete-config", "cleanup.policy") == changed
    assert tool("--topic", topic, "--describe") == [
        f"Dynamic configs for topic {topic} are:",
        "  segment.ms=7200000 sensitive=false synonyms={DYNAMIC_TOPIC_CONFIG:segment.ms=7200000}",
    ]
    assert tool("--broker", broker_id, "--alter", "--add-config", "log.retention.ms=96400000") == [
        f"Completed updating config for broker {broker_id}."
    ]
    own = "DYNAMIC_BROKER_CONFIG:log.retention.ms=96400000"
    default = f"DYNAMIC_DEFAULT_BROKER_CONFIG:log.retention.ms={retention_of_all_brokers}"
    every_level = f"{own}, {default}, DEFAULT_CONFIG:log.retention.hours=168"
    assert f"  log.retention.ms=96400000 sensitive=false synonyms={{{every_level}}}" in tool(
        "--broker", broker_id, "--describe"
    )
    assert f"  log.retention.ms={retention_of_all_brokers} sensitive=false synonyms={{{default}}}" in tool(
        "--broker-defaults", "--describe"
    )
    every = "\n".join(tool("--broker", broker_id, "--describe", "--all"))
    assert f"  listeners=PLAINTEXT://127.0.0.1:{broker.port}" in every
    assert "STATIC_BROKER_CONFIG:listeners=" in every
    for entity, change, text in (
        (("--topic", topic), "bogus.key=1", r"InvalidConfigurationException: Unknown topic config name: bogus\.key"),
        (("--broker", broker_id), "num.partitions=5", r"Cannot update these configs dynamically: \[num"),
        (("--broker-defaults",), "listener.name.a.b=5", "broker id must be specified: .*listener.name.a.b"),
    ):
        with pytest.raises(RuntimeError, match=text):
            tool(*entity, "--alter", "--add-config", change)


def test_kafkas_tool_sets_the_levels_of_loggers(broker: Broker, broker_id: str) -> None:
    tool = partial(configs_tool, broker, "--broker-logger", broker_id)

    def levels() -> dict[str, str]:
        line = re.compile(r"^  (\S+)=([A-Z]+) sensitive=false synonyms=\{\}$", re.MULTILINE)
        return dict(line.findall("\n".join(tool("--describe"))))

    before = levels()
    assert "root" in before
    name = next(each for each in before if each != "root")
    tool("--alter", "--add-config", f"{name}=TRACE")
    assert levels()[name] == "TRACE"
    tool("--alter", "--delete-config", name)
    assert levels()[name] == before[name]
    with pytest.raises(RuntimeError, match="Valid log levels are DEBUG, ERROR, FATAL, INFO, TRACE, WARN"):
        tool("--alter", "--add-config", f"{name}=LOUD")
    with pytest.raises(RuntimeError, match="Removing the log level of the root logger is not allowed"):
        tool("--alter", "--delete-config", "root")
