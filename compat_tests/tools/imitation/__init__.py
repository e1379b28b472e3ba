"""Commands that Ottla's imitation of Kafka's tools must answer as the tools do: one module an area.

A module holds `COMMANDS` (scenarios by name: a command a line, the tool's name without `kafka-` first), and if it needs
them `FILES` (what commands name as files: text, or what becomes JSON), `BROKERS` (kinds to run on) and
`RELEASES`, `KINDS` (other classes for kinds), `SETTINGS` (of the brokers), `QUICK` (the kind of `make test`),
`normalized(command, printed)`, and `prepare(tools, broker)`, which may note what is the broker's own in `broker.names`.
`test_shims` runs all areas of `AREAS`.
"""

AREAS = (
    "acls",
    "broker_api_versions",
    "client_metrics",
    "cluster",
    "cluster_controllers",
    "config_controllers",
    "configs",
    "console",
    "console_transactions",
    "consumer_groups",
    "consumer_protocol_groups",
    "delegation_tokens",
    "delete_records",
    "dump_log",
    "features",
    "get_offsets",
    "groups_all",
    "leader_election",
    "log_dirs",
    "metadata_quorum",
    "perf",
    "quotas",
    "reassign",
    "reassign_controllers",
    "replica_verification",
    "share_groups",
    "storage",
    "streams_groups",
    "topics",
    "transactions",
    "users",
    "verifiable",
)
