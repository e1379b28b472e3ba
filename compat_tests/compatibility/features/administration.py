"""Rows about administration."""

from functools import partial

from compat_tests.compatibility.drivers import Refused
from compat_tests.compatibility.features.declaring import Feature
from compat_tests.compatibility.trials import Trial, expect

TOPIC_ALREADY_EXISTS, INVALID_REPLICA_ASSIGNMENT, ELECTION_NOT_NEEDED = 36, 39, 84
NO_QUOTAS = "No quotas of any kind"
NO_SECURITY = "No TLS, no SASL, no ACLs, no delegation tokens"
BROKER_ID = 1


def create_topic(trial: Trial) -> None:
    given = {"topic": trial.topic, "partitions": 3, "configs": {"retention.ms": "12345"}}
    trial.ask("create_topic", **given)
    trial.wait_until(trial.partitions, 3)
    refused = trial.refusal("create_topic", **given)
    expect(refused.code, TOPIC_ALREADY_EXISTS)


def list_topics(trial: Trial) -> None:
    trial.create_topic()
    expect(trial.topic in trial.ask("list_topics"), True)


def describe_topic(trial: Trial) -> None:
    trial.create_topic(2)
    found = trial.ask("describe_topic", topic=trial.topic)
    expect(found, [[partition, BROKER_ID, [BROKER_ID]] for partition in range(2)])


def delete_topic(trial: Trial) -> None:
    trial.create_topic()
    trial.ask("delete_topic", topic=trial.topic)
    trial.wait_until(trial.partitions, 0)


def add_partitions(trial: Trial) -> None:
    trial.create_topic()
    trial.ask("add_partitions", topic=trial.topic, count=3)
    trial.wait_until(trial.partitions, 3)


def describe_configs(trial: Trial) -> None:
    trial.create_topic(retention_ms="12345")
    wanted = {"retention.ms": "12345", "cleanup.policy": "delete"}
    trial.wait_until(lambda: trial.ask("describe_configs", topic=trial.topic, keys=list(wanted)), wanted)


def alter_configs(trial: Trial) -> None:
    trial.create_topic(retention_ms="12345", segment_ms="23456")
    trial.ask("alter_configs", topic=trial.topic, put={"cleanup.policy": "compact"}, delete=["retention.ms"])
    wanted = {"cleanup.policy": "compact", "retention.ms": "-1", "segment.ms": "23456"}
    trial.wait_until(lambda: trial.configs(*wanted), wanted)


def replace_configs(trial: Trial) -> None:
    trial.create_topic(retention_ms="12345", segment_ms="23456")
    trial.ask("replace_configs", topic=trial.topic, configs={"segment.ms": "34567"})
    wanted = {"retention.ms": "-1", "segment.ms": "34567"}
    trial.wait_until(lambda: trial.configs(*wanted), wanted)


def with_group(trial: Trial) -> None:
    """Create a group without members but with a committed offset."""
    trial.create_topic()
    trial.commit(3)


def list_groups(trial: Trial) -> None:
    with_group(trial)
    expect(trial.group in trial.ask("list_groups"), True)


def describe_group(trial: Trial) -> None:
    with_group(trial)
    found = trial.ask("describe_group", group=trial.group)
    expect((found["state"].lower(), found["members"]), ("empty", 0))


def group_offsets(trial: Trial) -> None:
    with_group(trial)
    expect(trial.ask("group_offsets", group=trial.group, topic=trial.topic), [[trial.topic, 0, 3]])


def alter_group_offsets(trial: Trial) -> None:
    with_group(trial)
    trial.ask("alter_group_offsets", group=trial.group, topic=trial.topic, partition=0, offset=1)
    expect(trial.committed(), 1)


def reset_group_offsets(trial: Trial) -> None:
    with_group(trial)
    trial.ask("reset_group_offsets", group=trial.group, topic=trial.topic)
    expect(trial.committed(), 0)


def delete_group_offsets(trial: Trial) -> None:
    with_group(trial)
    trial.ask("delete_group_offsets", group=trial.group, topic=trial.topic, partition=0)
    expect(trial.committed(), None)


def delete_group(trial: Trial) -> None:
    with_group(trial)
    trial.ask("delete_group", group=trial.group)
    expect(trial.group in trial.groups(), False)


def delete_records(trial: Trial) -> None:
    trial.create_topic()
    trial.fill(*"abcde")
    trial.ask("delete_records", topic=trial.topic, partition=0, before=3)
    expect(trial.earliest(), 3)


def describe_cluster(trial: Trial) -> None:
    found = trial.ask("describe_cluster")
    expect((found["brokers"], found["controller"], bool(found.get("id", "none"))), (1, BROKER_ID, True))


def log_dirs(trial: Trial) -> None:
    trial.create_topic()
    trial.fill("a")
    ((topic, partition, size),) = trial.ask("log_dirs", topic=trial.topic)
    expect((topic, partition, size > 0), (trial.topic, 0, True))


def elect_leader(trial: Trial) -> None:
    trial.create_topic()
    try:
        trial.ask("elect_leader", topic=trial.topic)
    except Refused as refused:
        expect(refused.code, ELECTION_NOT_NEEDED)


def reassign(trial: Trial) -> None:
    trial.create_topic()
    trial.ask("reassign", topic=trial.topic, replicas=[BROKER_ID])
    trial.wait_until(lambda: trial.ask("reassignments", topic=trial.topic), [])
    refused = trial.refusal("reassign", topic=trial.topic, replicas=[7])
    expect(refused.code, INVALID_REPLICA_ASSIGNMENT)


def acls(trial: Trial) -> None:
    given = {"user": "nobody", "topic": trial.topic}
    trial.ask("create_acl", **given)
    trial.wait_until(lambda: trial.ask("describe_acls", **given), [["User:nobody", "WRITE", "DENY"]])
    expect(trial.ask("delete_acl", **given), 1)
    trial.wait_until(lambda: trial.ask("describe_acls", **given), [])


def quotas(trial: Trial) -> None:
    trial.ask("alter_quota", user=trial.name, key="producer_byte_rate", value=1_000_000)
    trial.wait_until(lambda: trial.ask("describe_quota", user=trial.name), {"producer_byte_rate": 1_000_000})


def scram_users(mechanism: str, trial: Trial) -> None:
    trial.ask("alter_scram", user=trial.name, mechanism=mechanism, password="of scram")
    trial.wait_until(lambda: trial.ask("describe_scram", user=trial.name), [mechanism])


ROWS = [
    Feature("create a topic; refused if it exists", create_topic),
    Feature("list topics", list_topics),
    Feature("describe a topic", describe_topic),
    Feature("delete a topic", delete_topic),
    Feature("add partitions", add_partitions),
    Feature("describe configs", describe_configs),
    Feature("alter configs, one by one", alter_configs),
    Feature("alter configs, all at once", replace_configs),
    Feature("list groups", list_groups),
    Feature("describe a group", describe_group),
    Feature("the offsets of a group", group_offsets),
    Feature("alter the offsets of a group", alter_group_offsets),
    Feature("reset the offsets of a group", reset_group_offsets),
    Feature("delete the offsets of a group", delete_group_offsets),
    Feature("delete a group", delete_group),
    Feature("delete records", delete_records),
    Feature("describe the cluster", describe_cluster),
    Feature("describe log directories", log_dirs),
    Feature("elect the preferred leader", elect_leader),
    Feature("reassign replicas", reassign),
    Feature("ACLs: create, describe, delete", acls, setting="secured", unsupported=NO_SECURITY),
    Feature("quotas: alter, describe", quotas, unsupported=NO_QUOTAS),
    *[
        Feature(f"users of {each}: alter, describe", partial(scram_users, each), unsupported=NO_SECURITY)
        for each in ("SCRAM-SHA-256", "SCRAM-SHA-512")
    ],
]
