"""Scenarios of configs, of the cluster's description, and of coordinators."""

from typing import Any

from compat_tests.differential.both import TEXT, Both, Deviation, PerSide
from compat_tests.differential.scenarios import ZOOKEEPER, scenario, words
from compat_tests.differential.scenarios.topics import CONFIGS_OF_4, SMALLEST_SEGMENT

TOPIC, BROKER, LOGGER = 2, 4, 8
SET, DELETE, APPEND, SUBTRACT = range(4)


def resource(name: Any, kind: int = TOPIC, **fields: Any) -> dict[str, Any]:
    """Return a resource for the config APIs."""
    return {"resource_type": kind, "resource_name": name, **fields}


DOCUMENTATION = Deviation(r"documentation", TEXT, TEXT, "our own words")
WORDS_OF_A_CODE = Deviation(
    r"error_message", ..., TEXT, "of a whole request that fails clients know what its code means"
)


@scenario("DescribeConfigs", *CONFIGS_OF_4, DOCUMENTATION)
def describe_configs_of_topics(both: Both) -> None:
    topic = both.topic(retention_ms="5000", cleanup_policy="compact,delete")
    both.ask("DescribeConfigs", resources=[resource(topic, configuration_keys=None)])
    both.ask("DescribeConfigs", resources=[resource(topic, configuration_keys=[])])
    wanted = ["retention.ms", "no.such.key", "segment.ms"]
    both.ask("DescribeConfigs", resources=[resource(topic, configuration_keys=wanted)])
    both.ask("DescribeConfigs", resources=[resource(topic, configuration_keys=wanted)], include_synonyms=True)
    both.ask("DescribeConfigs", resources=[resource(topic, configuration_keys=wanted)], include_documentation=True)
    both.ask("DescribeConfigs", resources=[])
    both.ask("DescribeConfigs", resources=[resource(topic, configuration_keys=["segment.ms"])] * 2)


@scenario("DescribeConfigs", WORDS_OF_A_CODE)
def describe_configs_of_what_is_not_there(both: Both) -> None:
    for name, kind in (
        ("nobody-made-this", TOPIC),
        ("bad name", TOPIC),
        ("", TOPIC),
        ("99", BROKER),
        ("not a number", BROKER),
        ("x", 0),
        ("x", 1),
        ("x", 3),
        ("x", 77),
        ("99", LOGGER),
        ("", LOGGER),
    ):
        both.ask("DescribeConfigs", resources=[resource(name, kind, configuration_keys=None)])


@scenario(
    "DescribeConfigs",
    Deviation(r"results.4 .configs$", [], ..., "KRaft sets min.insync.replicas, for its eligible replicas"),
)
def describe_configs_of_the_broker(both: Both) -> None:
    name = PerSide(*map(str, both.broker_id))
    keys = ["log.retention.ms", "num.partitions", "message.max.bytes", "no.such.key"]
    both.ask("DescribeConfigs", resources=[resource(name, BROKER, configuration_keys=keys)], include_synonyms=True)
    both.ask("DescribeConfigs", resources=[resource("", BROKER, configuration_keys=None)])


WRONG_CHANGES: tuple[tuple[str, str | None], ...] = (
    ("no.such.key", "1"),
    ("", "1"),
    ("retention.ms", None),
    ("retention.ms", "soon"),
    ("retention.ms", ""),
    ("segment.bytes", "1"),
    ("cleanup.policy", "burn"),
    ("compression.type", "zip"),
    ("min.insync.replicas", "0"),
)


def shown(both: Both, topic: str) -> None:
    """Compare a topic's current configs."""
    keys = ["retention.ms", "segment.ms", "cleanup.policy", "follower.replication.throttled.replicas"]
    both.ask("DescribeConfigs", settle=True, resources=[resource(topic, configuration_keys=keys)])


@scenario("AlterConfigs", SMALLEST_SEGMENT)
def alter_configs(both: Both) -> None:
    topic = both.topic(segment_ms="70000")
    retention = {"name": "retention.ms", "value": "9000"}
    both.ask("AlterConfigs", resources=[resource(topic, configs=[retention])], validate_only=True)
    shown(both, topic)
    both.ask("AlterConfigs", resources=[resource(topic, configs=[retention])])
    shown(both, topic)
    for name, value in WRONG_CHANGES:
        both.ask("AlterConfigs", resources=[resource(topic, configs=[{"name": name, "value": value}])])
    both.ask("AlterConfigs", resources=[resource(topic, configs=[retention, {**retention, "value": "8"}])])
    # Not the same resource twice, because Kafka 4.3.1 never answers that.
    for name in ("nobody-made-this", "bad name", ""):
        both.ask("AlterConfigs", resources=[resource(name, configs=[retention])])
    for kind in (0, 1, 3, 77):
        both.ask("AlterConfigs", resources=[resource(topic, kind, configs=[])])
    both.ask("AlterConfigs", resources=[])
    both.ask("AlterConfigs", resources=[resource(topic, configs=[])])
    shown(both, topic)


@scenario(
    "IncrementalAlterConfigs",
    SMALLEST_SEGMENT,
    *words("Config value append is not allowed", "Config value subtract is not allowed"),
    Deviation(r"error_code", 42, -1, "an operation that there is not: Kafka fails"),
    Deviation(r"error_message", "Unknown operations type 9", None, "as above"),
)
def incremental_alter_configs(both: Both) -> None:
    topic = both.topic(segment_ms="70000")

    def change(*changes: tuple[str, str | None, int], to: str = topic, kind: int = TOPIC, **fields: Any) -> None:
        configs = [{"name": name, "value": value, "config_operation": op} for name, value, op in changes]
        both.ask("IncrementalAlterConfigs", resources=[resource(to, kind, configs=configs)], **fields)

    change(("retention.ms", "9000", SET), validate_only=True)
    change(("retention.ms", "9000", SET), ("segment.ms", None, DELETE))
    shown(both, topic)
    change(("cleanup.policy", "compact", APPEND))
    shown(both, topic)
    change(("cleanup.policy", "delete", SUBTRACT), ("retention.ms", "ignored", DELETE))
    shown(both, topic)
    change(("cleanup.policy", "compact", APPEND))
    change(("cleanup.policy", "delete", SUBTRACT))
    change(("segment.ms", None, DELETE))
    shown(both, topic)
    for name, value in WRONG_CHANGES:
        change((name, value, SET))
    change(("no.such.key", None, DELETE))
    change(("cleanup.policy", "burn", APPEND))
    change(("cleanup.policy", None, APPEND))
    change(("cleanup.policy", None, SUBTRACT))
    change(("retention.ms", "5", APPEND))
    change(("retention.ms", "5", SUBTRACT))
    change(("retention.ms", "5", 9))
    change(("retention.ms", "5", SET), ("retention.ms", "6", SET))
    for to in ("nobody-made-this", "bad name", ""):
        change(("retention.ms", "5", SET), to=to)
    for kind in (0, 1, 3, 77):
        change(kind=kind)
    change()
    both.ask("IncrementalAlterConfigs", resources=[])
    both.ask("IncrementalAlterConfigs", resources=[resource(topic, configs=[])] * 2)
    shown(both, topic)


@scenario("DescribeCluster")
def describe_cluster(both: Both) -> None:
    both.ask("DescribeCluster")
    both.ask("DescribeCluster", include_cluster_authorized_operations=True)
    for kind in (1, 2, 3):
        both.ask("DescribeCluster", endpoint_type=kind)


@scenario("DescribeTopicPartitions")
def describe_topic_partitions(both: Both) -> None:
    one, two = both.topic(partitions=3), both.topic()
    everything = [{"name": one}, {"name": two}, {"name": "nobody-made-this"}, {"name": "bad name"}]
    both.ask("DescribeTopicPartitions", topics=everything, response_partition_limit=2000)
    both.ask("DescribeTopicPartitions", topics=[{"name": one}] * 2, response_partition_limit=2000)
    for limit in (1, 2, 3, 4, 0, -1, 100_000):
        both.ask("DescribeTopicPartitions", topics=everything[:2], response_partition_limit=limit)
    for topic, partition in ((one, 1), (one, 2), (one, 3), (one, 99), (two, 0), (one, -1), ("nobody", 0), ("zzz", 0)):
        cursor = {"topic_name": topic, "partition_index": partition}
        both.ask("DescribeTopicPartitions", topics=everything[:2], response_partition_limit=2000, cursor=cursor)


@scenario("DescribeLogDirs")
def describe_log_dirs(both: Both) -> None:
    topic = both.topic(partitions=2)
    both.fill(topic)
    for wanted in (
        [{"topic": topic, "partitions": [0, 1]}],
        [{"topic": topic, "partitions": [1, 1, 7, -1]}],
        [{"topic": topic, "partitions": []}],
        [{"topic": "nobody-made-this", "partitions": [0]}],
        [],
        None,
    ):
        both.ask("DescribeLogDirs", topics=wanted)


@scenario("AlterReplicaLogDirs")
def alter_replica_log_dirs(both: Both) -> None:
    topic, other = both.topic(partitions=2), both.topic()
    here = PerSide(*(str(side.broker.data / "log") for side in (both.ottla, both.kafka)))

    def wanted(*names: str, path: Any = here, partitions: tuple[int, ...] = (0, 1)) -> dict[str, Any]:
        return {"path": path, "topics": [{"name": name, "partitions": partitions} for name in names]}

    for dirs in (
        [wanted(topic)],
        [wanted(topic, other, "nobody-made-this")],
        [wanted(topic, partitions=(7, -1))],
        [wanted(topic, path="/nowhere")],
        [wanted(topic, path="log")],
        [wanted(topic, path="")],
        # The last one counts.
        [wanted(topic), wanted(topic, path="/nowhere")],
        [wanted(topic, path="/nowhere"), wanted(topic)],
        [wanted("t" * 210), wanted("t" * 220)],
        [wanted("", "a/b")],
        [wanted(topic, partitions=())],
        [wanted()],
        [],
    ):
        both.ask("AlterReplicaLogDirs", dirs=dirs)


@scenario("ListPartitionReassignments", Deviation(r"error_message", "", None, ZOOKEEPER))
def list_partition_reassignments(both: Both) -> None:
    topic = both.topic()
    for wanted in (
        [{"name": topic, "partition_indexes": [0]}],
        [{"name": topic, "partition_indexes": [9]}],
        [{"name": topic, "partition_indexes": []}],
        [{"name": "nobody-made-this", "partition_indexes": [0]}],
        [],
        None,
    ):
        both.ask("ListPartitionReassignments", topics=wanted, timeout_ms=10000)


@scenario(
    "AlterPartitionReassignments",
    Deviation(r"error_message", ..., ..., f"other words, or none; {ZOOKEEPER}"),
    Deviation(r"error_code", 85, 3, f"what is not there cannot be moving; {ZOOKEEPER}"),
)
def alter_partition_reassignments(both: Both) -> None:
    topic = both.topic(partitions=2)
    for name, index, replicas in (
        *((topic, 0, replicas) for replicas in ([1], None, [2], [1, 1], [], [-1], [1, 2])),
        *((where, 9, replicas) for where in (topic, "nobody-made-this") for replicas in ([1], None)),
    ):
        wanted = [{"name": name, "partitions": [{"partition_index": index, "replicas": replicas}]}]
        both.ask("AlterPartitionReassignments", topics=wanted, timeout_ms=10000)
    both.ask("AlterPartitionReassignments", topics=[], timeout_ms=10000)


@scenario(
    "ApiVersions",
    Deviation(r"api_keys.\d+$", "nothing", ..., "APIs that Ottla does not have, yet or at all"),
    Deviation(r"api_keys.(4|5|6|7|56|67)$", ..., "nothing", "brokers with ZooKeeper speak these among themselves"),
    Deviation(r"api_keys.\d+.max_version", ..., ..., "Kafka 3.9 is the measure of the highest versions"),
    Deviation(r"(supported|finalized)_features", ..., ..., "Kafka 3.9 has no features with ZooKeeper"),
)
def api_versions(both: Both) -> None:
    both.ask("ApiVersions", client_software_name="good", client_software_version="1.0")
    both.ask("ApiVersions", client_software_name="b\u00e4d name", client_software_version="1")
    both.ask("ApiVersions", client_software_name="good", client_software_version="")
