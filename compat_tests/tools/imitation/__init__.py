"""Commands whose output must be the same from Kafka's tools and from Ottla's imitation: one module for each area.

A module has `COMMANDS`: scenarios by name, one command a line, which begins with the tool's name without `kafka-`. It
may have `FILES` (files of commands: text, or values for JSON), `BROKERS` and `RELEASES` to run on, `KINDS` (other
classes for kinds), `SETTINGS` (of the brokers), `QUICK` (the kind of `make test`), `normalized(command, printed)`, and
`prepare(tools, broker)`, which may add the broker's own values to `broker.names`. `test_shims` runs all areas of
`AREAS`.
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
