"""The driver of confluent-kafka, which is librdkafka."""

import contextlib
import time
from collections.abc import Callable
from typing import Any

import confluent_kafka
import confluent_kafka.admin

from compat_tests.compatibility.programs.answering import Lacks, plain, raw, serve
from compat_tests.compatibility.programs.members import Member, member_calls

Connection = dict[str, Any]

# Their types do not tell what they export.
rd: Any = confluent_kafka
rd_admin: Any = confluent_kafka.admin
MOST_BYTES = 1 << 25
PATIENCE_S = 20
STRATEGIES = ("range", "roundrobin", "cooperative-sticky")


def settings(connection: Connection) -> dict[str, Any]:
    """Return a connection as settings of librdkafka."""
    made: dict[str, Any] = {"bootstrap.servers": connection["bootstrap"]}
    names = {
        "protocol": "security.protocol",
        "ca": "ssl.ca.location",
        "mechanism": "sasl.mechanism",
        "user": "sasl.username",
        "password": "sasl.password",
    }
    made |= {names[key]: value for key, value in connection.items() if key in names}
    if "token" in connection:
        made["oauth_cb"] = lambda _: (connection["token"], time.time() + 3600)
    return made


def part(topic: str, partition: int, *offset: int) -> Any:
    return rd.TopicPartition(topic, partition, *offset)


def code_of(error: Exception) -> int | None:
    told = error.args[0] if error.args else None
    # librdkafka's own errors are negative.
    return told.code() if isinstance(told, rd.KafkaError) and told.code() >= 0 else None


def result(futures: Any) -> Any:
    """Return the only result of an admin call."""
    (future,) = futures.values()
    return future.result(PATIENCE_S)


def admin(connection: Connection) -> Any:
    return rd_admin.AdminClient(settings(connection))


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
    made: dict[str, Any] = {"transactional.id": transaction["id"]} if transaction else {"acks": acks}
    producer = rd.Producer(
        {
            **settings(connection),
            **made,
            "enable.idempotence": idempotent or bool(transaction),
            "compression.type": codec,
            "message.max.bytes": MOST_BYTES,
            "message.timeout.ms": 10_000,
            # Because otherwise the client itself would refuse a larger record, with another error.
            "queue.buffering.max.kbytes": 1 << 20,
        }
    )
    found: list[int] = []
    errors: list[Any] = []

    def delivered(error: Any, message: Any) -> None:
        if error is not None:
            errors.append(error)
        else:
            found.append(message.offset())

    if transaction:
        producer.init_transactions(PATIENCE_S)
        producer.begin_transaction()
    for each in records:
        producer.produce(
            topic,
            key=raw(each.get("key")),
            value=raw(each.get("value")),
            headers=[(name, raw(value)) for name, value in each.get("headers", [])],
            partition=each.get("partition", 0),
            on_delivery=delivered,
            **({"timestamp": each["timestamp"]} if "timestamp" in each else {}),
        )
    producer.flush(PATIENCE_S)
    if errors:
        raise rd.KafkaException(errors[0])
    if transaction:
        if "offsets" in transaction:
            consumer = rd.Consumer({**settings(connection), "group.id": transaction["offsets"]["group"]})
            group = consumer.consumer_group_metadata()
            producer.send_offsets_to_transaction([part(topic, 0, transaction["offsets"]["offset"])], group, PATIENCE_S)
            consumer.close()
        {"commit": producer.commit_transaction, "abort": producer.abort_transaction}[transaction["end"]](PATIENCE_S)
    return found if acks != "0" else None


def fetch(
    connection: Connection,
    topic: str,
    count: int,
    start: dict[str, int] | str = "beginning",
    partition: int = 0,
    isolation: str = "read_uncommitted",
) -> Any:
    consumer = rd.Consumer(
        {
            **settings(connection),
            "group.id": "by-assignment",
            "enable.auto.commit": False,
            "isolation.level": isolation,
            "fetch.message.max.bytes": MOST_BYTES,
        }
    )
    with contextlib.closing(consumer):
        at = part(topic, partition, rd.OFFSET_BEGINNING)
        if isinstance(start, dict) and "time" in start:
            (at,) = consumer.offsets_for_times([part(topic, partition, start["time"])], PATIENCE_S)
        elif isinstance(start, dict):
            at.offset = start["offset"]
        consumer.assign([at])
        found: list[Any] = []
        deadline = time.monotonic() + PATIENCE_S
        while len(found) < count and time.monotonic() < deadline:
            for each in consumer.consume(500, 0.2):
                if each.error():
                    raise rd.KafkaException(each.error())
                headers = [[name, plain(value)] for name, value in each.headers() or []]
                found.append([each.offset(), each.timestamp()[1], plain(each.key()), plain(each.value()), headers])
    return found[:count]


def offsets(connection: Connection, topic: str, at: str | int, partition: int = 0) -> int:
    specs = {"earliest": rd_admin.OffsetSpec.earliest, "latest": rd_admin.OffsetSpec.latest}
    spec = specs[at]() if isinstance(at, str) else rd_admin.OffsetSpec.for_timestamp(at)
    # Keep a reference, because an unreferenced client ends together with its futures.
    client = admin(connection)
    return int(result(client.list_offsets({part(topic, partition): spec})).offset)


def join(
    connection: Connection,
    group: str,
    topic: str,
    strategy: str = "range",
    instance: str | None = None,
    protocol: str = "classic",
    auto_commit: bool = False,
) -> Member:
    if strategy not in STRATEGIES:
        raise Lacks(f"it has no assignor `{strategy}`")
    made: dict[str, Any] = {"group.protocol": protocol}
    if protocol == "classic":
        made |= {
            "partition.assignment.strategy": strategy,
            "session.timeout.ms": 6000,
            "heartbeat.interval.ms": 300,
        }
    if instance is not None:
        made["group.instance.id"] = instance
    consumer = rd.Consumer(
        {
            **settings(connection),
            **made,
            "group.id": group,
            "enable.auto.commit": auto_commit,
            "auto.commit.interval.ms": 200,
            "auto.offset.reset": "earliest",
        }
    )
    consumer.subscribe([topic])

    def seek(to: int) -> None:
        for each in consumer.assignment():
            consumer.seek(part(each.topic, each.partition, to))

    actions: dict[str, Callable[..., Any]] = {
        "commit": lambda: consumer.commit(asynchronous=False),
        "seek": lambda topic, partition, offset: consumer.seek(part(topic, partition, offset)),
        "seek_to_beginning": lambda: seek(rd.OFFSET_BEGINNING),
        # Reading must begin at the current end, not at one that is looked up later.
        "seek_to_end": lambda: [
            consumer.seek(part(each.topic, each.partition, consumer.get_watermark_offsets(each)[1]))
            for each in consumer.assignment()
        ],
        "pause": lambda topic, partition: consumer.pause([part(topic, partition)]),
        "resume": lambda topic, partition: consumer.resume([part(topic, partition)]),
    }

    def run(member: Member) -> None:
        with contextlib.closing(consumer):
            while not member.leaving.is_set():
                member.obey(actions)
                for each in consumer.consume(100, 0.1):
                    if each.error():
                        raise rd.KafkaException(each.error())
                    member.read.append((each.topic(), each.partition(), each.offset()))
                member.hold({(each.topic, each.partition) for each in consumer.assignment()})

    return Member(run)


# Administration


def topic_resource(topic: str, *entries: Any, **more: Any) -> Any:
    return rd_admin.ConfigResource(
        rd_admin.ResourceType.TOPIC, topic, incremental_configs=list(entries) or None, **more
    )


def create_topic(client: Any, topic: str, partitions: int, configs: dict[str, str]) -> None:
    result(client.create_topics([rd_admin.NewTopic(topic, partitions, 1, config=configs)]))


def describe_topic(client: Any, topic: str) -> Any:
    found = result(client.describe_topics(rd.TopicCollection([topic])))
    return [[each.id, each.leader.id, [replica.id for replica in each.replicas]] for each in found.partitions]


def describe_configs(client: Any, topic: str, keys: list[str]) -> Any:
    found = result(client.describe_configs([topic_resource(topic)]))
    return {key: found[key].value for key in keys}


def alter_configs(client: Any, topic: str, put: dict[str, str], delete: list[str]) -> None:
    kinds = rd_admin.AlterConfigOpType
    changes = [rd_admin.ConfigEntry(key, value, incremental_operation=kinds.SET) for key, value in put.items()]
    changes += [rd_admin.ConfigEntry(key, None, incremental_operation=kinds.DELETE) for key in delete]
    result(client.incremental_alter_configs([topic_resource(topic, *changes)]))


def describe_group(client: Any, group: str) -> Any:
    found = result(client.describe_consumer_groups([group]))
    return {"state": found.state.name, "members": len(found.members)}


def group_offsets(client: Any, group: str, topic: str) -> Any:
    found = result(client.list_consumer_group_offsets([rd.ConsumerGroupTopicPartitions(group)]))
    return [[each.topic, each.partition, each.offset] for each in found.topic_partitions]


def alter_group_offsets(client: Any, group: str, topic: str, partition: int, offset: int) -> None:
    wanted = rd.ConsumerGroupTopicPartitions(group, [part(topic, partition, offset)])
    (found,) = result(client.alter_consumer_group_offsets([wanted])).topic_partitions
    if found.error:
        raise rd.KafkaException(found.error)


def describe_cluster(client: Any) -> Any:
    found = client.describe_cluster().result(PATIENCE_S)
    return {"id": found.cluster_id, "brokers": len(found.nodes), "controller": found.controller.id}


def elect_leader(client: Any, topic: str) -> None:
    found = client.elect_leaders(rd.ElectionType.PREFERRED, [part(topic, 0)]).result(PATIENCE_S)
    for error in found.values():
        if error is not None:
            raise rd.KafkaException(error)


def acl(kind: Any, user: str, topic: str) -> Any:
    return kind(
        rd_admin.ResourceType.TOPIC,
        topic,
        rd_admin.ResourcePatternType.LITERAL,
        f"User:{user}",
        "*",
        rd_admin.AclOperation.WRITE,
        rd_admin.AclPermissionType.DENY,
    )


def describe_acls(client: Any, user: str, topic: str) -> Any:
    found = client.describe_acls(acl(rd_admin.AclBindingFilter, user, topic)).result(PATIENCE_S)
    return [[each.principal, each.operation.name, each.permission_type.name] for each in found]


def alter_scram(client: Any, user: str, mechanism: str, password: str) -> None:
    kind = rd_admin.ScramMechanism[mechanism.replace("-", "_")]
    info = rd_admin.ScramCredentialInfo(kind, 4096)
    result(client.alter_user_scram_credentials([rd_admin.UserScramCredentialUpsertion(user, info, password.encode())]))


def describe_scram(client: Any, user: str) -> Any:
    found = result(client.describe_user_scram_credentials([user]))
    return [each.mechanism.name.replace("_", "-") for each in found.scram_credential_infos]


ADMIN: dict[str, Callable[..., Any]] = {
    "create_topic": create_topic,
    "delete_topic": lambda client, topic: result(client.delete_topics([topic])),
    "list_topics": lambda client: list(client.list_topics(timeout=PATIENCE_S).topics),
    "describe_topic": describe_topic,
    "add_partitions": lambda client, topic, count: result(
        client.create_partitions([rd_admin.NewPartitions(topic, count)])
    ),
    "describe_configs": describe_configs,
    "alter_configs": alter_configs,
    "replace_configs": lambda client, topic, configs: result(
        client.alter_configs([topic_resource(topic, set_config=configs)])
    ),
    "list_groups": lambda client: [each.group_id for each in client.list_consumer_groups().result(PATIENCE_S).valid],
    "describe_group": describe_group,
    "group_offsets": group_offsets,
    "alter_group_offsets": alter_group_offsets,
    "delete_group": lambda client, group: result(client.delete_consumer_groups([group])),
    "delete_records": lambda client, topic, partition, before: (
        result(client.delete_records([part(topic, partition, before)])) and None
    ),
    "describe_cluster": describe_cluster,
    "elect_leader": elect_leader,
    "create_acl": lambda client, user, topic: result(client.create_acls([acl(rd_admin.AclBinding, user, topic)])),
    "describe_acls": describe_acls,
    "delete_acl": lambda client, user, topic: len(
        result(client.delete_acls([acl(rd_admin.AclBindingFilter, user, topic)]))
    ),
    "alter_scram": alter_scram,
    "describe_scram": describe_scram,
}


def by_admin(call: Callable[..., Any]) -> Callable[..., Any]:
    """Return a call with an admin client for its connection."""
    return lambda connection, **arguments: call(admin(connection), **arguments)


CALLS: dict[str, Callable[..., Any]] = {
    "produce": produce,
    "fetch": fetch,
    "offsets": offsets,
    **member_calls(join),
    **{name: by_admin(call) for name, call in ADMIN.items()},
}

if __name__ == "__main__":
    serve(CALLS, code_of)
