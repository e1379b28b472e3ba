"""Scenarios of Metadata, CreateTopics, DeleteTopics and CreatePartitions."""

from typing import Any

from compat_tests.differential.both import NOBODY, Both, Deviation
from compat_tests.differential.scenarios import UNKNOWN_ID, ZOOKEEPER, scenario, words

ON_THE_WAY = Deviation(r"Metadata.*error_code", 5, 3, ZOOKEEPER)
# A topic's configs, in responses since CreateTopics v5.
CONFIGS_OF_4 = (
    Deviation(
        r"configs.message.(downconversion.enable|format.version|timestamp.difference.max.ms)$",
        ...,
        "nothing",
        "Kafka 4.0 took these configs away",
    ),
    Deviation(r"timestamp.after.max.ms.value", str((1 << 63) - 1), "3600000", "Kafka 4.0 changed the default"),
    Deviation(r"min.insync.replicas.config_source", 5, 3, "KRaft sets it for the cluster, for its eligible replicas"),
)


@scenario("Metadata")
def metadata_of_known_topics(both: Both) -> None:
    one, two = both.topic(), both.topic(partitions=3)
    both.ask("Metadata", topics=[{"name": one}, {"name": two}, {"name": one}])
    both.ask("Metadata", topics=[{"name": one}], include_topic_authorized_operations=True)
    both.ask("Metadata", topics=[{"name": one}], include_cluster_authorized_operations=True)
    both.ask("Metadata", topics=[])


@scenario("Metadata")
def metadata_of_all_topics(both: Both) -> None:
    both.topic()
    if both.version:
        both.ask("Metadata", topics=None)


@scenario("Metadata")
def metadata_of_unknown_topics(both: Both) -> None:
    names = ["bad name", "", "a" * 250, ".."]
    for name in names:
        both.ask("Metadata", topics=[{"name": name}], allow_auto_topic_creation=False)
    if both.version >= 4:  # earlier versions always create topics
        both.ask("Metadata", topics=[{"name": "nobody-made-this"}], allow_auto_topic_creation=False)
    for name in names:
        both.ask("Metadata", topics=[{"name": name}], allow_auto_topic_creation=True)


@scenario("Metadata", Deviation(r"Metadata.*error_code", 42, -1, "neither name nor id: Kafka fails"))
def metadata_by_id(both: Both) -> None:
    topic = both.topic()
    both.ask("Metadata", topics=[{"topic_id": both.topic_id(topic), "name": None}])
    both.ask("Metadata", topics=[{"topic_id": UNKNOWN_ID, "name": None}])
    both.ask("Metadata", topics=[{"topic_id": UNKNOWN_ID, "name": topic}])
    both.ask("Metadata", topics=[{"topic_id": NOBODY, "name": None}])


@scenario("Metadata", ON_THE_WAY)
def metadata_creates_a_topic_on_the_way(both: Both) -> None:
    name = both.new_name()
    both.ask("Metadata", topics=[{"name": name}], allow_auto_topic_creation=True)
    both.wait_for(name)


def new(name: str, **fields: Any) -> dict[str, Any]:
    """Return a topic for CreateTopics."""
    return {"name": name, "num_partitions": 1, "replication_factor": 1, **fields}


def placed(*partitions: tuple[int, list[Any]]) -> dict[str, Any]:
    """Return a manual assignment for CreateTopics."""
    assignments = [{"partition_index": index, "broker_ids": brokers} for index, brokers in partitions]
    return {"num_partitions": -1, "replication_factor": -1, "assignments": assignments}


VALIDATED = Deviation(r"CreateTopics v7.*topic_id", "id of None", ..., f"only validated; {ZOOKEEPER}")


@scenario("CreateTopics", VALIDATED, *CONFIGS_OF_4)
def create_topics(both: Both) -> None:
    one, two, three = both.new_name(), both.new_name(), both.new_name()
    configs = [{"name": "retention.ms", "value": "5000"}, {"name": "cleanup.policy", "value": "compact,delete"}]
    both.ask("CreateTopics", topics=[new(one, num_partitions=2), new(two, configs=configs)], timeout_ms=30000)
    both.ask("CreateTopics", topics=[new(three)], timeout_ms=30000, validate_only=True)
    both.ask("CreateTopics", topics=[new(three, num_partitions=-1, replication_factor=-1)], timeout_ms=30000)
    manual = both.new_name()
    both.ask("CreateTopics", topics=[new(manual, **placed((0, [both.broker_id])))], timeout_ms=30000)
    for name, partitions in ((one, 2), (two, 1), (three, 1), (manual, 1)):
        both.wait_for(name, partitions)
    both.ask("Metadata", topics=[{"name": name} for name in (one, two, three, manual)])


@scenario("CreateTopics", *CONFIGS_OF_4, Deviation(r"CreateTopics v\d+.topics$", ..., ..., ZOOKEEPER))
def create_topics_with_wrong_names(both: Both) -> None:
    taken = both.topic()
    for name in ("", ".", "..", "a" * 249 + "b", "sp ace", "sl/ash", "\u00fcmlaut", taken, "__cluster_metadata"):
        both.ask("CreateTopics", topics=[new(name)], timeout_ms=30000)
    twice = both.new_name()
    both.ask("CreateTopics", topics=[new(twice), new(twice)], timeout_ms=30000)
    both.ask("CreateTopics", topics=[], timeout_ms=30000)
    dotted = both.new_name().replace("-", ".")
    both.ask("CreateTopics", topics=[new(dotted)], timeout_ms=30000)
    both.wait_for(dotted)
    both.ask("CreateTopics", topics=[new(dotted.replace(".", "_"))], timeout_ms=30000)


@scenario(
    "CreateTopics",
    *words(
        "Replication factor: 2 larger than available brokers: 1.",
        "Both numPartitions or replicationFactor and replicasAssignments were set.",
    ),
)
def create_topics_with_wrong_numbers(both: Both) -> None:
    for fields in (
        {"num_partitions": 0},
        {"num_partitions": -2},
        {"num_partitions": 10001},
        {"replication_factor": 0},
        {"replication_factor": -2},
        {"replication_factor": 2},
        placed((0, [both.broker_id, both.broker_id])),
        placed((0, [99])),
        placed((0, [])),
        placed((1, [both.broker_id])),
        placed((0, [both.broker_id]), (0, [both.broker_id])),
        placed((0, [both.broker_id]), (2, [both.broker_id])),
        {**placed((0, [both.broker_id])), "num_partitions": 1},
        {**placed((0, [both.broker_id])), "replication_factor": 1},
    ):
        both.ask("CreateTopics", topics=[new(both.new_name(), **fields)], timeout_ms=30000)


SMALLEST_SEGMENT = Deviation(
    r"error_message",
    "Invalid value 1 for configuration segment.bytes: Value must be at least 14",
    "Invalid value 1 for configuration segment.bytes: Value must be at least 1048576",
    "Kafka 4.0 raised it",
)


@scenario(
    "CreateTopics", VALIDATED, SMALLEST_SEGMENT, *CONFIGS_OF_4, *words("Tiered Storage functionality is disabled")
)
def create_topics_with_wrong_configs(both: Both) -> None:
    for name, value in WRONG_CONFIGS:
        wanted = new(both.new_name(), configs=[{"name": name, "value": value}])
        both.ask("CreateTopics", topics=[wanted], timeout_ms=30000, validate_only=True)


WRONG_CONFIGS = (
    ("no.such.key", "1"),
    ("", "1"),
    ("retention.ms", None),
    ("retention.ms", "soon"),
    ("retention.ms", "-2"),
    ("segment.bytes", "1"),
    ("cleanup.policy", "burn"),
    ("cleanup.policy", ""),
    ("compression.type", "zip"),
    ("min.insync.replicas", "0"),
    ("message.timestamp.type", "Never"),
    ("unclean.leader.election.enable", "perhaps"),
    ("min.cleanable.dirty.ratio", "1.5"),
    ("remote.storage.enable", "true"),
)


DELETED_TWICE = Deviation(r"DeleteTopics v\d+.responses$", ..., ..., f"named twice; {ZOOKEEPER}")
BOTH = Deviation(r"DeleteTopics.*error_message", None, "You may not specify both topic name and topic id.", ZOOKEEPER)
NO_ID = Deviation(r"DeleteTopics v6.*topic_id", "id of None", ..., f"deleted by name; {ZOOKEEPER}")


@scenario("DeleteTopics", DELETED_TWICE, NO_ID)
def delete_topics(both: Both) -> None:
    one, two = both.topic(), both.topic()
    wanted = [one, "nobody-made-this", "bad name", ""]
    both.ask("DeleteTopics", **by_name(both, wanted), timeout_ms=30000)
    both.ask("Metadata", settle=True, topics=[{"name": one}, {"name": two}], allow_auto_topic_creation=False)
    both.ask("DeleteTopics", **by_name(both, [one]), timeout_ms=30000)
    both.ask("DeleteTopics", **by_name(both, [two, two]), timeout_ms=30000)
    both.ask_without_comparing("DeleteTopics", both.version, **by_name(both, [two]), timeout_ms=30000)
    both.ask("DeleteTopics", **by_name(both, []), timeout_ms=30000)


def by_name(both: Both, names: list[str]) -> dict[str, Any]:
    """Return the fields of DeleteTopics for all versions."""
    return {"topic_names": names} if both.version < 6 else {"topics": [{"name": name} for name in names]}


@scenario("DeleteTopics", DELETED_TWICE, BOTH)
def delete_topics_by_id(both: Both) -> None:
    if both.version < 6:
        return
    topic = both.topic()
    topic_id = both.topic_id(topic)
    for one in ({"name": None, "topic_id": UNKNOWN_ID}, {"name": None, "topic_id": NOBODY}):
        both.ask("DeleteTopics", topics=[one], timeout_ms=30000)
    both.ask("DeleteTopics", topics=[{"name": topic, "topic_id": topic_id}], timeout_ms=30000)
    both.ask("DeleteTopics", topics=[{"name": None, "topic_id": topic_id}], timeout_ms=30000)
    topic = both.topic()
    twice = [{"name": None, "topic_id": both.topic_id(topic)}, {"name": topic}]
    both.ask("DeleteTopics", topics=twice, timeout_ms=30000)
    both.ask_without_comparing("DeleteTopics", 6, topics=twice[1:], timeout_ms=30000)


@scenario("CreatePartitions", *words("Duplicate topic in request."))
def create_partitions(both: Both) -> None:
    topic = both.topic(partitions=2)
    here = {"broker_ids": [both.broker_id]}
    for fields in (
        {"count": 1},
        {"count": 2},
        {"count": 0},
        {"count": -1},
        {"count": 3, "assignments": []},
        {"count": 3, "assignments": [here, here]},
        {"count": 4, "assignments": [here]},
        {"count": 3, "assignments": [{"broker_ids": [99]}]},
        {"count": 3, "assignments": [{"broker_ids": []}]},
        {"count": 3, "assignments": [{"broker_ids": [both.broker_id, both.broker_id]}]},
    ):
        both.ask("CreatePartitions", topics=[{"name": topic, "assignments": None, **fields}], timeout_ms=30000)
    for name in ("nobody-made-this", "bad name", ""):
        both.ask("CreatePartitions", topics=[{"name": name, "count": 3, "assignments": None}], timeout_ms=30000)
    more = {"name": topic, "count": 3, "assignments": None}
    both.ask("CreatePartitions", topics=[more, more], timeout_ms=30000)
    both.ask("CreatePartitions", topics=[], timeout_ms=30000)
    both.ask("CreatePartitions", topics=[more], timeout_ms=30000, validate_only=True)
    both.ask("CreatePartitions", topics=[more], timeout_ms=30000)
    both.ask("CreatePartitions", topics=[{**more, "count": 4, "assignments": [here]}], timeout_ms=30000)
    both.wait_for(topic, 4)


@scenario(
    "ElectLeaders",
    Deviation(r"replica_election_results(.topic-\d+)?$", ..., ..., f"all asked for, none elected; {ZOOKEEPER}"),
    Deviation(r"partition_result.*error_message", None, "Unknown election type 7", ZOOKEEPER),
    Deviation(r"ElectLeaders v\d+.error_code", 42, 0, ZOOKEEPER),
)
def elect_leaders(both: Both) -> None:
    topic = both.topic(partitions=2)
    for kind in (0, 1, 7):
        for partitions in (
            [{"topic": topic, "partitions": [0, 1]}],
            [{"topic": topic, "partitions": [9]}],
            [{"topic": "nobody-made-this", "partitions": [0]}],
            [],
            None,
        ):
            both.ask("ElectLeaders", election_type=kind, topic_partitions=partitions, timeout_ms=10000)
