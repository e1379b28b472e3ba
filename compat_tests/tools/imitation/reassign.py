"""kafka-reassign-partitions on one broker. `test_cluster_shims` has its scenarios for three brokers."""

import re
from typing import Any

from compat_tests.support.tools import Printed
from compat_tests.tools import tool_scenarios


def moved(topic: str, *replicas: list[int], **more: Any) -> dict[str, Any]:
    """Return a file for ReassignPartitionsCommand."""
    partitions = [{"topic": topic, "partition": index, "replicas": each, **more} for index, each in enumerate(replicas)]
    return {"version": 1, "partitions": partitions}


prepare = tool_scenarios.prepare
FILES: dict[str, Any] = {
    **tool_scenarios.FILES,
    "same.json": moved("filled", [1], [1]),
    "unknown-broker.json": moved("filled", [1, 7]),
    "gone.json": moved("gone", [1], [1]),
    "far.json": moved("filled", [1], [1], [1], [1]),
    "farther.json": {"partitions": [{"topic": "filled", "partition": 9, "replicas": [1]}]},
    "none.json": moved("filled", []),
    "nothing.json": {"version": 1, "partitions": []},
    "no-partitions.json": {"version": 1},
    "twice.json": {"version": 1, "partitions": [{"topic": "filled", "partition": 0, "replicas": [1, 1]}] * 2},
    "twice-1.json": moved("filled", [1, 1], [2, 2, 3, 3]),
    "version.json": {"version": 2, "partitions": []},
    "text-version.json": {"version": "1", "partitions": []},
    "text-replica.json": {"partitions": [{"topic": "filled", "partition": 0, "replicas": ["1"]}]},
    "no-list.json": {"partitions": [{"topic": "filled", "partition": 0, "replicas": 1}]},
    "no-replicas.json": {"partitions": [{"topic": "filled", "partition": 0}]},
    "no-object.json": [1],
    "empty.json": "",
    "dirs.json": moved("filled", [1], log_dirs=["any"]),
    "nowhere.json": moved("filled", [1], log_dirs=["/nowhere"]),
    "more-dirs.json": moved("filled", [1], log_dirs=["any", "any"]),
    "topics.json": {"version": 1, "topics": [{"topic": "filled"}, {"topic": "deleted"}]},
    "topics-gone.json": {"version": 1, "topics": [{"topic": "gone"}]},
    "topics-none.json": {"version": 1, "topics": []},
    "topics-twice.json": {"topics": [{"topic": "filled"}, {"topic": "deleted"}] * 2},
    "topics-version.json": {"version": 7, "topics": []},
    "topics-wrong.json": {"topics": [{"name": "filled"}]},
}
COMMANDS = {
    "reassign-partitions: a proposal": """
        reassign-partitions --generate --topics-to-move-json-file topics.json --broker-list 1
        reassign-partitions --generate --topics-to-move-json-file topics.json --broker-list 1,7 --disable-rack-aware
        reassign-partitions --generate --topics-to-move-json-file topics.json --broker-list 7
        reassign-partitions --generate --topics-to-move-json-file topics.json --broker-list 1,1
        reassign-partitions --generate --topics-to-move-json-file topics.json --broker-list 1,x
        reassign-partitions --generate --topics-to-move-json-file topics-gone.json --broker-list 1
        reassign-partitions --generate --topics-to-move-json-file topics-none.json --broker-list 1
        reassign-partitions --generate --topics-to-move-json-file topics-twice.json --broker-list 1
        reassign-partitions --generate --topics-to-move-json-file topics-version.json --broker-list 1
        reassign-partitions --generate --topics-to-move-json-file topics-wrong.json --broker-list 1
        reassign-partitions --generate --topics-to-move-json-file empty.json --broker-list 1
        reassign-partitions --generate --topics-to-move-json-file no-such.json --broker-list 1
    """,
    "reassign-partitions: partitions stay where they are": """
        reassign-partitions --list
        reassign-partitions --execute --reassignment-json-file same.json
        reassign-partitions --verify --reassignment-json-file same.json --preserve-throttles
        reassign-partitions --verify --reassignment-json-file same.json
        reassign-partitions --execute --reassignment-json-file same.json --throttle 1000000 --additional
        topics --describe --topic filled
        reassign-partitions --verify --reassignment-json-file same.json
        topics --describe --topic filled
        reassign-partitions --execute --reassignment-json-file dirs.json --replica-alter-log-dirs-throttle 5000
        reassign-partitions --verify --reassignment-json-file dirs.json
        reassign-partitions --cancel --reassignment-json-file same.json --preserve-throttles
        reassign-partitions --cancel --reassignment-json-file same.json
    """,
    "reassign-partitions: what cannot be moved is refused": """
        reassign-partitions --execute --reassignment-json-file unknown-broker.json
        reassign-partitions --execute --reassignment-json-file gone.json
        reassign-partitions --execute --reassignment-json-file far.json
        reassign-partitions --execute --reassignment-json-file none.json
        reassign-partitions --execute --reassignment-json-file nothing.json
        reassign-partitions --execute --reassignment-json-file no-partitions.json
        reassign-partitions --execute --reassignment-json-file twice.json
        reassign-partitions --execute --reassignment-json-file twice-1.json
        reassign-partitions --execute --reassignment-json-file version.json
        reassign-partitions --execute --reassignment-json-file text-version.json
        reassign-partitions --execute --reassignment-json-file text-replica.json
        reassign-partitions --execute --reassignment-json-file no-list.json
        reassign-partitions --execute --reassignment-json-file no-replicas.json
        reassign-partitions --execute --reassignment-json-file no-object.json
        reassign-partitions --execute --reassignment-json-file empty.json
        reassign-partitions --execute --reassignment-json-file more-dirs.json
        reassign-partitions --execute --reassignment-json-file nowhere.json
        reassign-partitions --verify --reassignment-json-file nowhere.json
        reassign-partitions --verify --reassignment-json-file unknown-broker.json --preserve-throttles
        reassign-partitions --verify --reassignment-json-file gone.json --preserve-throttles
        reassign-partitions --verify --reassignment-json-file gone.json
        reassign-partitions --verify --reassignment-json-file far.json
        reassign-partitions --verify --reassignment-json-file farther.json --preserve-throttles
        reassign-partitions --cancel --reassignment-json-file gone.json --preserve-throttles
        reassign-partitions --cancel --reassignment-json-file nothing.json
        reassign-partitions --verify --reassignment-json-file no-such.json
    """,
    "reassign-partitions: wrong usage is refused": """
        reassign-partitions
        reassign-partitions --help
        reassign-partitions --version
        reassign-partitions --frob
        reassign-partitions --list --verify
        reassign-partitions --verify
        reassign-partitions --generate --broker-list 1
        reassign-partitions --execute --throttle
        reassign-partitions --execute --reassignment-json-file same.json --throttle many
        reassign-partitions --list --throttle 5
        reassign-partitions --verify --reassignment-json-file same.json --throttle 5 --timeout 3
        reassign-partitions --cancel --reassignment-json-file same.json --additional
        reassign-partitions --list --bootstrap-controller localhost:9
        reassign-partitions --list --command-config no-such.properties
    """,
}


def normalized(command: str, printed: Printed) -> Printed:
    """Leave out random parts, stack traces, and the JVM's first words about an uncaught exception."""
    stdout = re.sub(r"\n\t.*", "", printed.stdout)
    head, proposal, tail = stdout.partition("Proposed partition reassignment configuration\n")
    stderr = re.sub(r'(?m)^Exception in thread "main" ', "", printed.stderr)
    return Printed(printed.code, head + proposal + re.sub(r"[123](?=[],])", "N", tail), stderr)
