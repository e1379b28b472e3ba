"""Well-formed but impossible requests, each with the answer of Apache Kafka 3.9.2.

"TOPIC" stands for a topic with one partition and one record, "NEW" for a topic that does not exist. The broker's id is
1.
"""

from collections.abc import Mapping
from functools import partial
from typing import Any
from uuid import UUID

from compat_tests.hostile.hostile import MAX_INT, MIN_INT, batch, codes, produce_fields
from compat_tests.support.talking import (
    ALTER_CONFIGS,
    ALTER_REPLICA_LOG_DIRS,
    API_VERSIONS,
    CREATE_PARTITIONS,
    CREATE_TOPICS,
    DELETE_RECORDS,
    DELETE_TOPICS,
    DESCRIBE_CLUSTER,
    DESCRIBE_CONFIGS,
    DESCRIBE_LOG_DIRS,
    DESCRIBE_PRODUCERS,
    FIND_COORDINATOR,
    INCREMENTAL_ALTER_CONFIGS,
    INIT_PRODUCER_ID,
    LIST_OFFSETS,
    LIST_PARTITION_REASSIGNMENTS,
    METADATA,
    OFFSET_FOR_LEADER_EPOCH,
    PRODUCE,
    SILENT,
    Answer,
    Probe,
    ask,
    create_topic,
)

TOPIC_TYPE, BROKER_TYPE, LOGGER_TYPE, METRICS_TYPE = 2, 4, 8, 16
SET, DELETE, APPEND, SUBTRACT = range(4)
UNKNOWN_ID, NO_ID = UUID(int=9), UUID(int=0)
BAD_NAMES = ("", "bad name", ".", "..", "x" * 250, "../up", "a/b", "\0", "é", "\U0001f600")
Case = tuple[str, int, int, Mapping[str, Any], Answer]


def request(key: int, version: int, fields: Mapping[str, Any], bootstrap: str, name: str) -> Answer:
    """Send a request in which this probe's topic replaces TOPIC."""
    filled = _filled(fields, name)
    if "TOPIC" in repr(fields):
        create_topic(bootstrap, name)
        assert ask(bootstrap, PRODUCE, 9, **produce_fields(name, bytes(batch()))) == codes(0)
    return ask(bootstrap, key, version, **filled)


def _filled(value: Any, name: str) -> Any:
    if isinstance(value, Mapping):
        return {key: _filled(each, name) for key, each in value.items()}
    if isinstance(value, list):
        return [_filled(each, name) for each in value]
    return value.replace("TOPIC", name).replace("NEW", name) if isinstance(value, str) else value


def new_topic(name: str = "NEW", partitions: int = 1, replicas: int = 1, **fields: Any) -> dict[str, Any]:
    numbers = {"num_partitions": partitions, "replication_factor": replicas}
    return {"name": name, "assignments": [], "configs": []} | numbers | fields


def create(*topics: Mapping[str, Any], **fields: Any) -> dict[str, Any]:
    return {"topics": list(topics), "timeout_ms": 30_000, "validate_only": False} | fields


def assigned(*partitions: tuple[int, list[int]]) -> dict[str, Any]:
    assignments = [{"partition_index": index, "broker_ids": brokers} for index, brokers in partitions]
    return new_topic("NEW", -1, -1, assignments=assignments)


def configured(**configs: str | None) -> dict[str, Any]:
    found = [{"name": key.replace("_", "."), "value": value} for key, value in configs.items()]
    return new_topic("NEW", configs=found)


CREATIONS: list[Case] = [
    *((f"named {each!r}", CREATE_TOPICS, 5, create(new_topic(each)), codes(17)) for each in BAD_NAMES),
    ("that is there", CREATE_TOPICS, 5, create(new_topic("TOPIC")), codes(36)),
    ("0 partitions", CREATE_TOPICS, 5, create(new_topic(partitions=0)), codes(37)),
    ("-2 partitions", CREATE_TOPICS, 5, create(new_topic(partitions=-2)), codes(37)),
    ("2 replicas", CREATE_TOPICS, 5, create(new_topic(replicas=2)), codes(38)),
    ("0 replicas", CREATE_TOPICS, 5, create(new_topic(replicas=0)), codes(38)),
    ("-2 replicas", CREATE_TOPICS, 5, create(new_topic(replicas=-2)), codes(38)),
    ("default numbers in version 3", CREATE_TOPICS, 3, create(new_topic(partitions=-1)), codes(0)),
    ("named twice", CREATE_TOPICS, 5, create(new_topic(), new_topic()), codes(42, 42)),
    ("none", CREATE_TOPICS, 5, create(), codes()),
    ("no time", CREATE_TOPICS, 5, create(new_topic(), timeout_ms=0), codes(7)),
    ("less than no time", CREATE_TOPICS, 5, create(new_topic(), timeout_ms=-1), codes(7)),
    ("the metadata log", CREATE_TOPICS, 5, create(new_topic("__cluster_metadata")), codes(42)),
    ("an unknown config", CREATE_TOPICS, 5, create(configured(no_such_config="1")), codes(40)),
    ("a config that is no number", CREATE_TOPICS, 5, create(configured(retention_ms="soon")), codes(40)),
    ("a config out of range", CREATE_TOPICS, 5, create(configured(segment_bytes="1")), codes(40)),
    ("a config of null", CREATE_TOPICS, 5, create(configured(retention_ms=None)), codes(40)),
    ("a config beyond 64 bits", CREATE_TOPICS, 5, create(configured(retention_ms="9" * 40)), codes(40)),
    ("an unknown codec", CREATE_TOPICS, 5, create(configured(compression_type="zip")), codes(40)),
    ("a broker that is not there", CREATE_TOPICS, 5, create(assigned((0, [1]), (1, [99])), timeout_ms=1000), codes(7)),
    ("one partition assigned twice", CREATE_TOPICS, 5, create(assigned((0, [1]), (0, [1]))), codes(0)),
    ("a gap between partitions", CREATE_TOPICS, 5, create(assigned((0, [1]), (2, [1]))), codes(39)),
    ("partition -1", CREATE_TOPICS, 5, create(assigned((-1, [1]))), codes(-1)),
    ("no broker", CREATE_TOPICS, 5, create(assigned((0, [])), timeout_ms=1000), codes(7)),
    ("one broker twice", CREATE_TOPICS, 5, create(assigned((0, [1, 1]))), codes(39)),
    ("broker -1", CREATE_TOPICS, 5, create(assigned((0, [-1])), timeout_ms=1000), codes(7)),
    (
        *("numbers and an assignment", CREATE_TOPICS, 5),
        *(create(assigned((0, [1])) | {"num_partitions": 1, "replication_factor": 1}), codes(42)),
    ),
]


def delete(*topics: tuple[str | None, UUID], **fields: Any) -> dict[str, Any]:
    found = [{"name": name, "topic_id": topic_id} for name, topic_id in topics]
    return {"topics": found, "timeout_ms": 30_000} | fields


def delete_named(*names: str, **fields: Any) -> dict[str, Any]:
    return {"topic_names": list(names), "timeout_ms": 30_000} | fields


DELETIONS: list[Case] = [
    *((f"{each!r}", DELETE_TOPICS, 4, delete_named(each), codes(3)) for each in ("", "nobody", "../up", "a b")),
    ("none", DELETE_TOPICS, 4, delete_named(), codes()),
    ("one twice", DELETE_TOPICS, 4, delete_named("TOPIC", "TOPIC"), codes(0, 0)),
    ("no time", DELETE_TOPICS, 4, delete_named("TOPIC", timeout_ms=0), codes(7)),
    ("less than no time", DELETE_TOPICS, 4, delete_named("TOPIC", timeout_ms=-1), codes(7)),
    ("an unknown id", DELETE_TOPICS, 6, delete((None, UNKNOWN_ID)), codes(100)),
    ("neither name nor id", DELETE_TOPICS, 6, delete((None, NO_ID)), codes(29)),
    ("a name and an id", DELETE_TOPICS, 6, delete(("nobody", UNKNOWN_ID)), codes(42)),
    ("one id twice", DELETE_TOPICS, 6, delete((None, UNKNOWN_ID), (None, UNKNOWN_ID)), codes(100, 100)),
]


def enlarge(*topics: tuple[str, int, Any], **fields: Any) -> dict[str, Any]:
    found = [{"name": name, "count": count, "assignments": assigned} for name, count, assigned in topics]
    return {"topics": found, "timeout_ms": 30_000, "validate_only": False} | fields


def on(*brokers: list[int]) -> list[dict[str, Any]]:
    return [{"broker_ids": each} for each in brokers]


ENLARGEMENTS: list[Case] = [
    ("unknown", CREATE_PARTITIONS, 3, enlarge(("nobody", 3, None)), codes(3)),
    ("a path", CREATE_PARTITIONS, 3, enlarge(("../up", 3, None)), codes(-1)),
    *((f"{each} partitions", CREATE_PARTITIONS, 3, enlarge(("TOPIC", each, None)), codes(37)) for each in (1, 0, -1)),
    ("named twice", CREATE_PARTITIONS, 3, enlarge(("TOPIC", 2, None), ("TOPIC", 3, None)), codes(42)),
    ("none", CREATE_PARTITIONS, 3, enlarge(), codes()),
    ("an unknown broker", CREATE_PARTITIONS, 3, enlarge(("TOPIC", 2, on([99]))), codes(39)),
    ("too few assignments", CREATE_PARTITIONS, 3, enlarge(("TOPIC", 3, on([1]))), codes(39)),
    ("too many assignments", CREATE_PARTITIONS, 3, enlarge(("TOPIC", 2, on([1], [1]))), codes(39)),
    ("no assignments", CREATE_PARTITIONS, 3, enlarge(("TOPIC", 2, [])), codes(39)),
    ("an empty assignment", CREATE_PARTITIONS, 3, enlarge(("TOPIC", 2, on([]))), codes(39)),
    ("one broker twice", CREATE_PARTITIONS, 3, enlarge(("TOPIC", 2, on([1, 1]))), codes(39)),
    ("no time", CREATE_PARTITIONS, 3, enlarge(("TOPIC", 2, None), timeout_ms=0), codes(7)),
]


def records_below(offset: int, topic: str = "TOPIC", partition: int = 0) -> dict[str, Any]:
    partitions = [{"partition_index": partition, "offset": offset}]
    return {"topics": [{"name": topic, "partitions": partitions}], "timeout_ms": 5000}


def offsets(timestamp: int, topic: str = "TOPIC", partition: int = 0, times: int = 1, **fields: Any) -> dict[str, Any]:
    asked = {"partition_index": partition, "current_leader_epoch": fields.pop("epoch", -1), "timestamp": timestamp}
    return {"replica_id": -1, "isolation_level": 0, "topics": [{"name": topic, "partitions": [asked] * times}]} | fields


def epochs(
    leader_epoch: int, topic: str = "TOPIC", partition: int = 0, times: int = 1, **fields: Any
) -> dict[str, Any]:
    asked = {"partition": partition, "current_leader_epoch": fields.pop("epoch", -1), "leader_epoch": leader_epoch}
    return {"replica_id": -1, "topics": [{"topic": topic, "partitions": [asked] * times}]} | fields


def producers(topic: str, *partitions: int) -> dict[str, Any]:
    return {"topics": [{"name": topic, "partition_indexes": list(partitions)}]}


def directories(topic: str, *partitions: int) -> dict[str, Any]:
    return {"topics": [{"topic": topic, "partitions": list(partitions)}]}


def moves(path: str, topic: str, *partitions: int, times: int = 1) -> dict[str, Any]:
    return {"dirs": [{"path": path, "topics": [{"name": topic, "partitions": list(partitions)}] * times}]}


MOVES: list[Case] = [
    ("a directory that there is not", ALTER_REPLICA_LOG_DIRS, 2, moves("/nowhere", "TOPIC", 0, -1), codes(57, 57)),
    ("a path of nothing", ALTER_REPLICA_LOG_DIRS, 2, moves("", "TOPIC", 0), codes(57)),
    ("a path with a zero", ALTER_REPLICA_LOG_DIRS, 2, moves("/tmp\0", "TOPIC", 0), codes(57)),
    ("a path of all lengths", ALTER_REPLICA_LOG_DIRS, 2, moves("/x" * 16000, "TOPIC", 0), codes(57)),
    ("one partition twice", ALTER_REPLICA_LOG_DIRS, 2, moves("/nowhere", "TOPIC", 0, 0), codes(57)),
    ("one topic twice", ALTER_REPLICA_LOG_DIRS, 2, moves("/nowhere", "TOPIC", 0, times=2), codes(57)),
    ("a name that is too long", ALTER_REPLICA_LOG_DIRS, 2, moves("/nowhere", "x" * 250, 0), codes(17)),
    ("a name of a path", ALTER_REPLICA_LOG_DIRS, 2, moves("/nowhere", "../up", 0), codes(57)),
    ("no partitions", ALTER_REPLICA_LOG_DIRS, 2, moves("/nowhere", "TOPIC"), codes()),
    ("no directory", ALTER_REPLICA_LOG_DIRS, 2, {"dirs": []}, codes()),
]


LOOKUPS: list[Case] = [
    ("beyond the end", DELETE_RECORDS, 2, records_below(2), codes(1)),
    ("as far as can be said", DELETE_RECORDS, 2, records_below(2**63 - 1), codes(1)),
    ("offset -1", DELETE_RECORDS, 2, records_below(-1), codes(0)),
    ("offset -2", DELETE_RECORDS, 2, records_below(-2), codes(1)),
    *(
        (f"partition {each}", DELETE_RECORDS, 2, records_below(0, partition=each), codes(3))
        for each in (1, -1, MAX_INT)
    ),
    ("an unknown topic", DELETE_RECORDS, 2, records_below(0, "nobody"), codes(3)),
    ("a path", DELETE_RECORDS, 2, records_below(0, "../up"), codes(3)),
    ("less than no time", DELETE_RECORDS, 2, records_below(0) | {"timeout_ms": -1}, codes(0)),
    *((f"timestamp {each}", LIST_OFFSETS, 9, offsets(each), codes(35)) for each in (-6, -7, MIN_INT, -(2**63))),
    ("timestamp -3 in version 6", LIST_OFFSETS, 6, offsets(-3), codes(35)),
    ("timestamp -4 in version 7", LIST_OFFSETS, 7, offsets(-4), codes(35)),
    ("timestamp -5 in version 8", LIST_OFFSETS, 8, offsets(-5), codes(35)),
    ("a timestamp far ahead", LIST_OFFSETS, 9, offsets(2**63 - 1), codes(0)),
    *((f"partition {each}", LIST_OFFSETS, 9, offsets(-1, partition=each), codes(3)) for each in (1, -1, MAX_INT)),
    ("an unknown topic", LIST_OFFSETS, 9, offsets(-1, "nobody"), codes(3)),
    ("a path", LIST_OFFSETS, 9, offsets(-1, "../up"), codes(3)),
    ("one partition twice", LIST_OFFSETS, 9, offsets(-1, times=2), codes(42, 42)),
    ("leader epoch 9", LIST_OFFSETS, 9, offsets(-1, epoch=9), codes(75)),
    ("leader epoch -9", LIST_OFFSETS, 9, offsets(-1, epoch=-9), codes(74)),
    ("isolation 7", LIST_OFFSETS, 9, offsets(-1, isolation_level=7), codes(-1)),
    ("as replica 9", LIST_OFFSETS, 9, offsets(-1, replica_id=9), codes(0)),
    ("as replica -7", LIST_OFFSETS, 9, offsets(-1, replica_id=-7), codes(0)),
    ("epoch 9", OFFSET_FOR_LEADER_EPOCH, 4, epochs(9), codes(0)),
    ("epoch -9", OFFSET_FOR_LEADER_EPOCH, 4, epochs(-9), codes(0)),
    ("leader epoch 9", OFFSET_FOR_LEADER_EPOCH, 4, epochs(0, epoch=9), codes(75)),
    ("an unknown topic", OFFSET_FOR_LEADER_EPOCH, 4, epochs(0, "nobody"), codes(3)),
    ("partition -1", OFFSET_FOR_LEADER_EPOCH, 4, epochs(0, partition=-1), codes(3)),
    ("leader epoch -9", OFFSET_FOR_LEADER_EPOCH, 4, epochs(0, epoch=-9), codes(74)),
    ("as replica 9", OFFSET_FOR_LEADER_EPOCH, 4, epochs(0, replica_id=9), codes(0)),
    ("one partition twice", OFFSET_FOR_LEADER_EPOCH, 4, epochs(0, times=2), codes(0, 0)),
    ("an unknown topic", DESCRIBE_PRODUCERS, 0, producers("nobody", 0), codes(3)),
    ("a path", DESCRIBE_PRODUCERS, 0, producers("../up", 0), codes(17)),
    ("partitions -1 and 5", DESCRIBE_PRODUCERS, 0, producers("TOPIC", -1, 5), codes(3, 3)),
    ("one partition twice", DESCRIBE_PRODUCERS, 0, producers("TOPIC", 0, 0), codes(0, 0)),
    ("an unknown topic", DESCRIBE_LOG_DIRS, 4, directories("nobody", 0, -1), codes(0, 0)),
    ("one partition twice", DESCRIBE_LOG_DIRS, 4, directories("TOPIC", 0, 0), codes(0, 0)),
    ("no topics", DESCRIBE_LOG_DIRS, 4, {"topics": []}, codes(0, 0)),
]


def reassignments(*topics: tuple[str, list[int]], timeout_ms: int = 5000) -> dict[str, Any]:
    found = [{"name": name, "partition_indexes": indexes} for name, indexes in topics]
    return {"timeout_ms": timeout_ms, "topics": found}


def metadata(*topics: tuple[str | None, UUID], create: bool = False) -> dict[str, Any]:
    found = [{"name": name, "topic_id": topic_id} for name, topic_id in topics]
    return {"topics": found, "allow_auto_topic_creation": create}


def coordinators(key_type: int, *keys: str) -> dict[str, Any]:
    return {"key_type": key_type, "coordinator_keys": list(keys), "key": keys[0] if keys else ""}


def producer(
    transactional_id: str | None, timeout_ms: int = 1000, producer_id: int = -1, epoch: int = -1
) -> dict[str, Any]:
    found = {"transactional_id": transactional_id, "transaction_timeout_ms": timeout_ms}
    return found | {"producer_id": producer_id, "producer_epoch": epoch}


CLUSTER: list[Case] = [
    ("an unknown topic", LIST_PARTITION_REASSIGNMENTS, 0, reassignments(("nobody", [0, -1])), codes(0)),
    ("less than no time", LIST_PARTITION_REASSIGNMENTS, 0, reassignments(timeout_ms=-1), codes(0)),
    *((f"{each!r}", METADATA, 9, metadata((each, NO_ID), create=True), codes(17)) for each in BAD_NAMES),
    *((f"{each!r} without creation", METADATA, 9, metadata((each, NO_ID)), codes(17)) for each in BAD_NAMES),
    ("one topic twice", METADATA, 9, metadata(("TOPIC", NO_ID), ("TOPIC", NO_ID)), codes(0, 0)),
    ("one unknown topic twice", METADATA, 9, metadata(("nobody", NO_ID), ("nobody", NO_ID)), codes(3)),
    ("an unknown id", METADATA, 12, metadata((None, UNKNOWN_ID)), codes(100)),
    ("a name and an unknown id", METADATA, 12, metadata(("TOPIC", UNKNOWN_ID)), codes(100)),
    ("neither name nor id", METADATA, 12, metadata((None, NO_ID)), codes(-1)),
    ("a null name in version 11", METADATA, 11, metadata((None, NO_ID)), codes(42)),
    ("an id in version 11", METADATA, 11, metadata(("nobody", UNKNOWN_ID)), codes(42)),
    ("endpoints of type 7", DESCRIBE_CLUSTER, 1, {"endpoint_type": 7}, codes(115)),
    ("endpoints of controllers", DESCRIBE_CLUSTER, 1, {"endpoint_type": 2}, codes(114)),
    *((f"of type {each}", FIND_COORDINATOR, 3, coordinators(each, "x"), codes(42)) for each in (2, 7, -1)),
    *((f"of type {each}", FIND_COORDINATOR, 6, coordinators(each, "x"), codes(42)) for each in (7, -1)),
    ("of type 2", FIND_COORDINATOR, 6, coordinators(2, "x"), codes(15)),
    ("of type 2 in version 5", FIND_COORDINATOR, 5, coordinators(2, "x"), codes(42)),
    ("of nobody", FIND_COORDINATOR, 6, coordinators(0), codes()),
    ("an empty transactional id", INIT_PRODUCER_ID, 2, producer(""), codes(42)),
    ("an empty transactional id", INIT_PRODUCER_ID, 4, producer(""), codes(42)),
    ("an id without an epoch", INIT_PRODUCER_ID, 4, producer(None, producer_id=5), codes(42)),
    ("an epoch without an id", INIT_PRODUCER_ID, 4, producer(None, epoch=5), codes(42)),
    ("an id that nobody gave out", INIT_PRODUCER_ID, 4, producer(None, producer_id=5, epoch=5), codes(0)),
    ("less than no time", INIT_PRODUCER_ID, 4, producer(None, timeout_ms=-1), codes(0)),
    *(
        (
            f"a client called {each!r}",
            API_VERSIONS,
            3,
            {"client_software_name": each, "client_software_version": "1"},
            codes(42),
        )
        for each in ("", "-", "a b", "é", "a" * 200 + "!")
    ),
    (
        "a client of version ' '",
        API_VERSIONS,
        3,
        {"client_software_name": "a", "client_software_version": " "},
        codes(42),
    ),
]


def resource(kind: int, name: str, configs: Any, **fields: Any) -> dict[str, Any]:
    return {"resource_type": kind, "resource_name": name, "configs": configs} | fields


def alter(*resources: Mapping[str, Any], validate_only: bool = False) -> dict[str, Any]:
    return {"resources": list(resources), "validate_only": validate_only}


def to(name: str, value: str | None, operation: int | None = None) -> dict[str, Any]:
    found: dict[str, Any] = {"name": name, "value": value}
    return found if operation is None else found | {"config_operation": operation}


def described(*resources: tuple[int, str], keys: list[str] | None = None) -> dict[str, Any]:
    found = [{"resource_type": kind, "resource_name": name, "configuration_keys": keys} for kind, name in resources]
    return {"resources": found, "include_synonyms": False, "include_documentation": False}


_GOOD, _GOOD_SET = to("retention.ms", "1000"), to("retention.ms", "1000", SET)
CONFIGS: list[Case] = [
    *(
        (f"type {kind} {name!r}", DESCRIBE_CONFIGS, 4, described((kind, name)), codes(expected))
        for kind, name, expected in (
            (TOPIC_TYPE, "nobody", 3), (TOPIC_TYPE, "", 17), (TOPIC_TYPE, "../up", 17), (BROKER_TYPE, "x", 42),
            (BROKER_TYPE, "77", 42), (BROKER_TYPE, "", 0), (0, "x", 42), (1, "x", 42), (3, "x", 42), (7, "x", 42),
            (-1, "x", 42), (64, "x", 42), (METRICS_TYPE, "x", 42), (LOGGER_TYPE, "77", 42), (LOGGER_TYPE, "x", 42),
        )
    ),
    ("keys nobody knows", DESCRIBE_CONFIGS, 4, described((TOPIC_TYPE, "TOPIC"), keys=["x", "", "x"]), codes(0)),
    ("one topic twice", DESCRIBE_CONFIGS, 4, described((TOPIC_TYPE, "TOPIC"), (TOPIC_TYPE, "TOPIC")), codes(0, 0)),
    *(
        (f"type {kind} {name!r}", ALTER_CONFIGS, 2, alter(resource(kind, name, [_GOOD])), codes(expected))
        for kind, name, expected in (
            (TOPIC_TYPE, "nobody", 3), (TOPIC_TYPE, "", 42), (TOPIC_TYPE, "../up", 3), (BROKER_TYPE, "x", 42),
            (BROKER_TYPE, "77", 42), (0, "x", 42), (7, "x", 42), (-1, "x", 42), (METRICS_TYPE, "x", 42),
            (LOGGER_TYPE, "77", 42),
        )
    ),
    *(
        (what, ALTER_CONFIGS, 2, alter(resource(TOPIC_TYPE, "TOPIC", configs)), codes(expected))
        for what, configs, expected in (
            ("an unknown config", [to("no.such", "1")], 40), ("no number", [to("retention.ms", "soon")], 40),
            ("null", [to("retention.ms", None)], 42), ("one config twice", [_GOOD, _GOOD], 42),
            ("no name", [to("", "1")], 40), ("out of range", [to("segment.bytes", "1")], 40),
        )
    ),
    (
        *("one topic twice", ALTER_CONFIGS, 2),
        *(alter(resource(TOPIC_TYPE, "TOPIC", [_GOOD]), resource(TOPIC_TYPE, "TOPIC", [])), SILENT),
    ),
    *(
        (f"{kind} {name!r}", INCREMENTAL_ALTER_CONFIGS, 1, alter(resource(kind, name, [_GOOD_SET])), codes(expected))
        for kind, name, expected in (
            (TOPIC_TYPE, "nobody", 3), (TOPIC_TYPE, "", 42), (BROKER_TYPE, "x", 42), (BROKER_TYPE, "77", 42),
            (0, "x", 42), (7, "x", 42), (-1, "x", 42), (LOGGER_TYPE, "77", 42), (LOGGER_TYPE, "x", 42),
        )
    ),
    *(
        (what, INCREMENTAL_ALTER_CONFIGS, 1, alter(resource(TOPIC_TYPE, "TOPIC", configs)), codes(expected))
        for what, configs, expected in (
            ("operation 4", [to("retention.ms", "1", 4)], -1),
            ("operation -1", [to("retention.ms", "1", -1)], -1),
            ("set to null", [to("retention.ms", None, SET)], 42),
            ("set to no number", [to("retention.ms", "x", SET)], 40),
            ("set of an unknown config", [to("no.such", "1", SET)], 40),
            ("delete of an unknown config", [to("no.such", None, DELETE)], 0),
            ("append to a number", [to("retention.ms", "1", APPEND)], 40),
            ("subtract from a number", [to("retention.ms", "1", SUBTRACT)], 40),
            ("append to an unknown config", [to("no.such", "1", APPEND)], -1),
            ("append of nonsense", [to("cleanup.policy", "x", APPEND)], 40),
            ("subtract of what is not there", [to("cleanup.policy", "x", SUBTRACT)], 0),
            ("append of null", [to("cleanup.policy", None, APPEND)], 42),
            ("one config twice", [to("retention.ms", "1", SET), to("retention.ms", "1", DELETE)], 42),
        )
    ),
    (
        *("one topic twice", INCREMENTAL_ALTER_CONFIGS, 1),
        *(alter(resource(TOPIC_TYPE, "TOPIC", []), resource(TOPIC_TYPE, "TOPIC", [])), codes(42, 42)),
    ),
]  # fmt: skip

_AREAS = (
    ("create", CREATIONS), ("delete", DELETIONS), ("enlarge", ENLARGEMENTS), ("look-up", LOOKUPS), ("move", MOVES),
    ("cluster", CLUSTER), ("configs", CONFIGS),
)  # fmt: skip
CASES = [case for _, cases in _AREAS for case in cases]
REQUESTS: dict[str, tuple[Probe, Answer]] = {
    f"{area} of API {key} v{version}: {what}": (partial(request, key, version, fields), expected)
    for area, cases in _AREAS
    for what, key, version, fields, expected in cases
}
