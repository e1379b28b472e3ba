"""Imitations of Kafka's tools: the same flags, lines and exit codes.

A shim runs `python -m ottla.scripts.kafka kafka-topics ...`; `TOOLS` has all tools. A tool is one module with
`main(arguments, face) -> int`. `flags` parses like Kafka's parser joptsimple, `subcommands` like its other parser
argparse4j. `face` has a tool's output and the imitated release. `java` imitates Java in Kafka's lines: names of
exceptions, the order of hash maps, formats of numbers.

The tools' output is Kafka's, the help texts are ours. Of Kafka's stack traces the lines that begin with a tab are left
out.
"""

from collections.abc import Mapping
from typing import Final

TOOLS: Final[Mapping[str, str]] = {
    "kafka-acls": "acls",
    "kafka-delegation-tokens": "delegation_tokens",
    "kafka-broker-api-versions": "broker_api_versions",
    "kafka-delete-records": "delete_records",
    "kafka-dump-log": "dump_log",
    "kafka-get-offsets": "get_offsets",
    "kafka-leader-election": "leader_election",
    "kafka-log-dirs": "log_dirs",
    "kafka-reassign-partitions": "reassign_partitions",
    "kafka-replica-verification": "replica_verification",
    "kafka-client-metrics": "client_metrics",
    "kafka-cluster": "cluster",
    "kafka-configs": "configs",
    "kafka-console-consumer": "console_consumer",
    "kafka-console-producer": "console_producer",
    "kafka-consumer-perf-test": "consumer_perf_test",
    "kafka-e2e-latency": "e2e_latency",
    "kafka-features": "features",
    "kafka-groups": "groups",
    "kafka-metadata-quorum": "metadata_quorum",
    "kafka-producer-perf-test": "producer_perf_test",
    "kafka-share-groups": "share_groups",
    "kafka-storage": "storage",
    "kafka-streams-groups": "streams_groups",
    "kafka-consumer-groups": "consumer_groups",
    "kafka-topics": "topics",
    "kafka-transactions": "transactions",
    "kafka-verifiable-consumer": "verifiable_consumer",
    "kafka-verifiable-producer": "verifiable_producer",
}
"""The module of each tool. `absent` has the tools that are not imitated."""
