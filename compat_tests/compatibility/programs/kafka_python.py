"""The driver of kafka-python."""

import contextlib
import time
from collections.abc import Callable, Iterator
from typing import Any, NoReturn

import kafka
import kafka.admin
import kafka.coordinator.assignors.cooperative_sticky
import kafka.coordinator.assignors.range
import kafka.coordinator.assignors.roundrobin
import kafka.coordinator.assignors.sticky.sticky_assignor
from kafka.net.sasl.oauth import AbstractTokenProvider

from compat_tests.compatibility.programs.answering import Lacks, chosen, plain, raw, serve
from compat_tests.compatibility.programs.members import Member, member_calls

Connection = dict[str, Any]

py: Any = kafka
admin_of: Any = kafka.admin
assignors: Any = kafka.coordinator.assignors
MOST_BYTES = 1 << 25
PATIENCE_S = 20
STRATEGIES = {
    "range": assignors.range.RangePartitionAssignor,
    "roundrobin": assignors.roundrobin.RoundRobinPartitionAssignor,
    "sticky": assignors.sticky.sticky_assignor.StickyPartitionAssignor,
    "cooperative-sticky": assignors.cooperative_sticky.CooperativeStickyAssignor,
}


def settings(connection: Connection) -> dict[str, Any]:
    """Return a connection as settings of kafka-python."""

    class Token(AbstractTokenProvider):  # type: ignore[misc]
        def token(self) -> str:
            return str(connection["token"])

    made: dict[str, Any] = {"bootstrap_servers": connection["bootstrap"]}
    if "protocol" in connection:
        made["security_protocol"] = connection["protocol"]
    if "ca" in connection:
        made["ssl_cafile"] = connection["ca"]
    if "mechanism" in connection:
        made["sasl_mechanism"] = connection["mechanism"]
    if "token" in connection:
        made["sasl_oauth_token_provider"] = Token()
    elif "user" in connection:
        made |= {"sasl_plain_username": connection["user"], "sasl_plain_password": connection["password"]}
    return made


def part(topic: str, partition: int) -> Any:
    return py.TopicPartition(topic, partition)


def code_of(error: Exception) -> int | None:
    number = getattr(error, "errno", None)
    return number if isinstance(number, int) else None


# Records


def produce(
    connection: Connection,
    topic: str,
    records: list[dict[str, Any]],
    acks: str = "all",
    codec: str = "none",
    idempotent: bool = False,
    transaction: dict[str, Any] | None = None,
) -> Any:
    made = {"transactional_id": transaction["id"]} if transaction else {"enable_idempotence": idempotent}
    producer = py.KafkaProducer(
        **settings(connection),
        **made,
        acks={"0": 0, "1": 1, "all": "all"}[acks],
        compression_type=None if codec == "none" else codec,
        max_request_size=MOST_BYTES,
        max_block_ms=5000,
    )
    with contextlib.closing(producer):
        if transaction:
            producer.init_transactions()
            producer.begin_transaction()
        sent = [
            producer.send(
                topic,
                key=raw(each.get("key")),
                value=raw(each.get("value")),
                headers=[(name, raw(value)) for name, value in each.get("headers", [])],
                partition=each.get("partition", 0),
                timestamp_ms=each.get("timestamp"),
            )
            for each in records
        ]
        producer.flush(PATIENCE_S)
        offsets = [each.get(PATIENCE_S).offset for each in sent]
        if transaction:
            if "offsets" in transaction:
                group = py.structs.ConsumerGroupMetadata(transaction["offsets"]["group"])
                position = {part(topic, 0): py.OffsetAndMetadata(transaction["offsets"]["offset"])}
                producer.send_offsets_to_transaction(position, group)
            {"commit": producer.commit_transaction, "abort": producer.abort_transaction}[transaction["end"]]()
    return offsets if acks != "0" else None


def fetch(
    connection: Connection,
    topic: str,
    count: int,
    start: dict[str, int] | str = "beginning",
    partition: int = 0,
    isolation: str = "read_uncommitted",
) -> Any:
    consumer = py.KafkaConsumer(
        **settings(connection), group_id=None, isolation_level=isolation, max_partition_fetch_bytes=MOST_BYTES
    )
    with contextlib.closing(consumer):
        at = part(topic, partition)
        consumer.assign([at])
        if start == "beginning":
            consumer.seek_to_beginning(at)
        elif isinstance(start, dict) and "time" in start:
            consumer.seek(at, consumer.offsets_for_times({at: start["time"]})[at].offset)
        elif isinstance(start, dict):
            consumer.seek(at, start["offset"])
        found: list[Any] = []
        deadline = time.monotonic() + PATIENCE_S
        while len(found) < count and time.monotonic() < deadline:
            for batch in consumer.poll(timeout_ms=500).values():
                found += batch
    return [
        [each.offset, each.timestamp, plain(each.key), plain(each.value), [[n, plain(v)] for n, v in each.headers]]
        for each in found[:count]
    ]


def offsets(connection: Connection, topic: str, at: str | int, partition: int = 0) -> int:
    where = part(topic, partition)
    specs = {"earliest": admin_of.OffsetSpec.EARLIEST, "latest": admin_of.OffsetSpec.LATEST}
    spec = specs[at] if isinstance(at, str) else admin_of.OffsetTimestamp(at)
    with admin(connection) as client:
        return int(client.list_partition_offsets({where: spec})[where].offset)


def join(
    connection: Connection,
    group: str,
    topic: str,
    strategy: str = "range",
    instance: str | None = None,
    protocol: str = "classic",
    auto_commit: bool = False,
) -> Member:
    if protocol != "classic":
        raise Lacks("it has only the classic group protocol")
    made = {
        **settings(connection),
        "group_id": group,
        "group_instance_id": instance,
        "partition_assignment_strategy": [chosen(STRATEGIES, strategy, "assignor")],
        "session_timeout_ms": 6000,
        "heartbeat_interval_ms": 300,
        "metadata_max_age_ms": 1000,
        "enable_auto_commit": auto_commit,
        "auto_commit_interval_ms": 200,
        "auto_offset_reset": "earliest",
    }

    def run(member: Member) -> None:
        with contextlib.closing(py.KafkaConsumer(topic, **made)) as consumer:
            actions: dict[str, Callable[..., Any]] = {
                "commit": consumer.commit,
                "seek": lambda topic, partition, offset: consumer.seek(part(topic, partition), offset),
                "seek_to_beginning": consumer.seek_to_beginning,
                "seek_to_end": lambda: (
                    consumer.seek_to_end(),
                    [consumer.position(each) for each in consumer.assignment()],
                ),
                "pause": lambda topic, partition: consumer.pause(part(topic, partition)),
                "resume": lambda topic, partition: consumer.resume(part(topic, partition)),
            }
            while not member.leaving.is_set():
                member.obey(actions)
                for batch in consumer.poll(timeout_ms=100).values():
                    member.read += [(each.topic, each.partition, each.offset) for each in batch]
                member.hold({tuple(each) for each in consumer.assignment()})

    return Member(run)


# Administration


@contextlib.contextmanager
def admin(connection: Connection) -> Iterator[Any]:
    client = admin_of.KafkaAdminClient(**settings(connection))
    try:
        yield client
    finally:
        client.close()


def by_admin(call: Callable[..., Any]) -> Callable[..., Any]:
    """Return a call with an admin client for its connection."""

    def run(connection: Connection, **arguments: Any) -> Any:
        with admin(connection) as client:
            return call(client, **arguments)

    return run


def raised(results: Any) -> None:
    """Raise the first error among error classes."""
    for each in results:
        if each is not None and each.errno:
            raise each()


def describe_topic(client: Any, topic: str) -> Any:
    (found,) = client.describe_topics([topic])
    if found["error_code"]:
        raise py.errors.for_code(found["error_code"])()
    parts = sorted(found["partitions"], key=lambda each: each["partition_index"])
    return [[each["partition_index"], each["leader_id"], each["replica_nodes"]] for each in parts]


def describe_configs(client: Any, topic: str, keys: list[str]) -> Any:
    found = client.describe_configs([admin_of.ConfigResource("topic", topic)], config_filter="all")["topic"][topic]
    return {key: found[key]["value"] for key in keys}


def alter_configs(client: Any, topic: str, put: dict[str, str], delete: list[str]) -> None:
    changes = {**put, **dict.fromkeys(delete, ("DELETE", None))}
    client.alter_configs([admin_of.ConfigResource("topic", topic, changes)], incremental=True)


def describe_group(client: Any, group: str) -> Any:
    found = client.describe_groups([group])[group]
    return {"state": found["group_state"], "members": len(found["members"])}


def group_offsets(client: Any, group: str, topic: str) -> Any:
    found = client.list_group_offsets(group)[group]
    return sorted([each.topic, each.partition, at.offset] for each, at in found.items())


def reset_group_offsets(client: Any, group: str, topic: str) -> None:
    found = client.reset_group_offsets(group, {part(topic, 0): admin_of.OffsetSpec.EARLIEST})
    raised(each["error"] for each in found.values())


def replace_configs(client: Any, topic: str, configs: dict[str, str]) -> NoReturn:
    raise Lacks("its request also has earlier changes")


def alter_group_offsets(client: Any, group: str, topic: str, partition: int, offset: int) -> None:
    raised(client.alter_group_offsets(group, {part(topic, partition): py.OffsetAndMetadata(offset)}).values())


def delete_group_offsets(client: Any, group: str, topic: str, partition: int) -> None:
    raised(client.delete_group_offsets(group, [part(topic, partition)]).values())


def delete_groups(client: Any, group: str) -> None:
    if (said := client.delete_groups([group])[group]) != "OK":
        raise RuntimeError(said)


def describe_cluster(client: Any) -> Any:
    found = client.describe_cluster()
    return {"id": found["cluster_id"], "brokers": len(found["brokers"]), "controller": found["controller_id"]}


def log_dirs(client: Any, topic: str) -> Any:
    found = [
        [topic, each["partition_index"], each["partition_size"]]
        for broker in client.describe_log_dirs([topic])
        for folder in broker["log_dirs"]
        for each_topic in folder["topics"]
        for each in each_topic["partitions"]
    ]
    return sorted(found)


def reassignments(client: Any, topic: str) -> Any:
    return [[each.topic, each.partition] for each in client.list_partition_reassignments({topic: [0]})]


def acl(user: str, topic: str) -> Any:
    denied = admin_of.ACLOperation.WRITE, admin_of.ACLPermissionType.DENY
    return admin_of.ACL(f"User:{user}", "*", *denied, admin_of.ResourcePattern(admin_of.ResourceType.TOPIC, topic))


def create_acl(client: Any, user: str, topic: str) -> None:
    for _, error in client.create_acls([acl(user, topic)])["failed"]:
        raise error


def describe_acls(client: Any, user: str, topic: str) -> Any:
    found, error = client.describe_acls(acl(user, topic))
    raised([error])
    return [[each.principal, each.operation.name, each.permission_type.name] for each in found]


def delete_acl(client: Any, user: str, topic: str) -> int:
    ((_, found, error),) = client.delete_acls([acl(user, topic)])
    raised([error])
    return len(found)


def alter_scram(client: Any, user: str, mechanism: str, password: str) -> None:
    kind = {"SCRAM-SHA-256": 1, "SCRAM-SHA-512": 2}[mechanism]
    upsertion = admin_of.UserScramCredentialUpsertion(user, admin_of.ScramMechanism(kind), password)
    if error := client.alter_user_scram_credentials([upsertion])[user]:
        raise RuntimeError(error)


def describe_scram(client: Any, user: str) -> Any:
    found = client.describe_user_scram_credentials([user])[user]
    if found["error"]:
        raise RuntimeError(found["error"])
    return sorted(each["mechanism"].name.replace("_", "-") for each in found["credential_infos"])


ADMIN: dict[str, Callable[..., Any]] = {
    "create_topic": lambda client, topic, partitions, configs: (
        client.create_topics({topic: {"num_partitions": partitions, "replication_factor": 1, "configs": configs}})
        and None
    ),
    "delete_topic": lambda client, topic: client.delete_topics([topic]) and None,
    "list_topics": lambda client: sorted(client.list_topics()),
    "describe_topic": describe_topic,
    "add_partitions": lambda client, topic, count: client.create_partitions({topic: count}) and None,
    "describe_configs": describe_configs,
    "alter_configs": alter_configs,
    "list_groups": lambda client: sorted(each["group_id"] for each in client.list_groups()),
    "describe_group": describe_group,
    "group_offsets": group_offsets,
    "reset_group_offsets": reset_group_offsets,
    "replace_configs": replace_configs,
    "alter_group_offsets": alter_group_offsets,
    "delete_group_offsets": delete_group_offsets,
    "delete_group": delete_groups,
    "delete_records": lambda client, topic, partition, before: (
        client.delete_records({part(topic, partition): before}) and None
    ),
    "describe_cluster": describe_cluster,
    "log_dirs": log_dirs,
    "elect_leader": lambda client, topic: client.elect_leaders(0, {topic: [0]}) and None,
    "reassign": lambda client, topic, replicas: raised(
        client.alter_partition_reassignments({part(topic, 0): replicas}).values()
    ),
    "reassignments": reassignments,
    "create_acl": create_acl,
    "describe_acls": describe_acls,
    "delete_acl": delete_acl,
    "alter_scram": alter_scram,
    "describe_scram": describe_scram,
}
CALLS: dict[str, Callable[..., Any]] = {
    "produce": produce,
    "fetch": fetch,
    "offsets": offsets,
    **member_calls(join),
    **{name: by_admin(call) for name, call in ADMIN.items()},
}

if __name__ == "__main__":
    serve(CALLS, code_of)
