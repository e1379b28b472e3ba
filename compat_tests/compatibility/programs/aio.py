"""The driver of aiokafka: a loop in a thread of its own runs all consumers."""

import asyncio
import contextlib
import threading
from collections.abc import AsyncIterator, Callable, Coroutine
from typing import Any

import aiokafka
import aiokafka.admin
import aiokafka.admin.config_resource
import aiokafka.coordinator.assignors.range
import aiokafka.coordinator.assignors.roundrobin
import aiokafka.coordinator.assignors.sticky.sticky_assignor
import aiokafka.errors
import aiokafka.helpers
from aiokafka.abc import AbstractTokenProvider

from compat_tests.compatibility.programs.answering import Lacks, chosen, plain, raw, serve

Connection = dict[str, Any]

aio: Any = aiokafka
aio_admin: Any = aiokafka.admin
assignors: Any = aiokafka.coordinator.assignors
MOST_BYTES = 1 << 25
PATIENCE_S = 20
STRATEGIES = {
    "range": assignors.range.RangePartitionAssignor,
    "roundrobin": assignors.roundrobin.RoundRobinPartitionAssignor,
    "sticky": assignors.sticky.sticky_assignor.StickyPartitionAssignor,
}


def settings(connection: Connection) -> dict[str, Any]:
    """Return a connection as settings of aiokafka."""

    class Token(AbstractTokenProvider):  # type: ignore[misc]
        async def token(self) -> str:
            return str(connection["token"])

    made: dict[str, Any] = {"bootstrap_servers": connection["bootstrap"]}
    if "protocol" in connection:
        made["security_protocol"] = connection["protocol"]
    if "ca" in connection:
        made["ssl_context"] = aiokafka.helpers.create_ssl_context(cafile=connection["ca"])
    if "mechanism" in connection:
        made["sasl_mechanism"] = connection["mechanism"]
    if "token" in connection:
        made["sasl_oauth_token_provider"] = Token()
    elif "user" in connection:
        made |= {"sasl_plain_username": connection["user"], "sasl_plain_password": connection["password"]}
    return made


def part(topic: str, partition: int) -> Any:
    return aio.TopicPartition(topic, partition)


def code_of(error: Exception) -> int | None:
    number = getattr(error, "errno", None)
    return number if isinstance(number, int) and number >= 0 else None


# Records


async def produce(
    connection: Connection,
    topic: str,
    records: list[dict[str, Any]],
    acks: str = "all",
    codec: str = "none",
    idempotent: bool = False,
    transaction: dict[str, Any] | None = None,
) -> Any:
    made: dict[str, Any] = {"acks": {"0": 0, "1": 1, "all": "all"}[acks], "enable_idempotence": idempotent}
    if transaction:
        made = {"transactional_id": transaction["id"]}
    async with (
        asyncio.timeout(PATIENCE_S),
        aio.AIOKafkaProducer(
            **settings(connection),
            **made,
            compression_type=None if codec == "none" else codec,
            max_request_size=MOST_BYTES,
        ) as producer,
    ):
        if transaction:
            await producer.begin_transaction()
        sent = [
            await producer.send(
                topic,
                key=raw(each.get("key")),
                value=raw(each.get("value")),
                headers=[(name, raw(value)) for name, value in each.get("headers", [])],
                partition=each.get("partition", 0),
                timestamp_ms=each.get("timestamp"),
            )
            for each in records
        ]
        offsets = [(await each).offset for each in sent] if acks != "0" else None
        if transaction:
            if "offsets" in transaction:
                position = {part(topic, 0): transaction["offsets"]["offset"]}
                await producer.send_offsets_to_transaction(position, transaction["offsets"]["group"])
            end = {"commit": producer.commit_transaction, "abort": producer.abort_transaction}[transaction["end"]]
            await end()
    return offsets


async def fetch(
    connection: Connection,
    topic: str,
    count: int,
    start: dict[str, int] | str = "beginning",
    partition: int = 0,
    isolation: str = "read_uncommitted",
) -> Any:
    made = {"isolation_level": isolation, "max_partition_fetch_bytes": MOST_BYTES}
    async with (
        asyncio.timeout(PATIENCE_S),
        aio.AIOKafkaConsumer(**settings(connection), **made, group_id=None) as consumer,
    ):
        at = part(topic, partition)
        consumer.assign([at])
        if start == "beginning":
            await consumer.seek_to_beginning(at)
        elif isinstance(start, dict) and "time" in start:
            consumer.seek(at, (await consumer.offsets_for_times({at: start["time"]}))[at].offset)
        elif isinstance(start, dict):
            consumer.seek(at, start["offset"])
        found: list[Any] = []
        while len(found) < count:
            for batch in (await consumer.getmany(timeout_ms=500)).values():
                found += batch
    return [
        [each.offset, each.timestamp, plain(each.key), plain(each.value), [[n, plain(v)] for n, v in each.headers]]
        for each in found[:count]
    ]


async def offsets(connection: Connection, topic: str, at: str | int, partition: int = 0) -> int:
    where = part(topic, partition)
    async with asyncio.timeout(PATIENCE_S), aio.AIOKafkaConsumer(**settings(connection)) as consumer:
        consumer.assign([where])
        if isinstance(at, int):
            return int((await consumer.offsets_for_times({where: at}))[where].offset)
        looked_up = {"earliest": consumer.beginning_offsets, "latest": consumer.end_offsets}[at]
        return int((await looked_up([where]))[where])


# Groups


class Member:
    """A consumer in a group, and the task that polls it."""

    def __init__(self, consumer: Any) -> None:
        self.consumer = consumer
        self.held: set[tuple[str, int]] = set()
        self.read: list[tuple[str, int, int]] = []
        self.changes = 0
        self.failure: str | None = None
        self.task = asyncio.create_task(self._poll())

    async def _poll(self) -> None:
        try:
            await self.consumer.start()
            while True:
                for batch in (await self.consumer.getmany(timeout_ms=100)).values():
                    self.read += [(each.topic, each.partition, each.offset) for each in batch]
                held = {tuple(each) for each in self.consumer.assignment()}
                if held != self.held:
                    self.changes += 1
                    self.held = held
        except Exception as error:
            self.failure = f"{type(error).__name__}: {error}"

    async def tell(self, what: str, topic: str = "", partition: int = 0, offset: int = 0) -> None:
        consumer, at = self.consumer, part(topic, partition)
        actions: dict[str, Callable[[], Any]] = {
            "commit": consumer.commit,
            "seek": lambda: consumer.seek(at, offset),
            "seek_to_beginning": consumer.seek_to_beginning,
            "seek_to_end": consumer.seek_to_end,
            "pause": lambda: consumer.pause(at),
            "resume": lambda: consumer.resume(at),
        }
        done = actions[what]()
        if done is not None:
            await done

    async def leave(self) -> None:
        self.task.cancel()
        with contextlib.suppress(asyncio.CancelledError):
            await self.task
        await self.consumer.stop()

    async def state(self) -> Any:
        found = {"assigned": sorted(self.held), "read": list(self.read), "changes": self.changes}
        return {**found, "failure": self.failure}


members: dict[str, Member] = {}


async def join(
    connection: Connection,
    member: str,
    group: str,
    topic: str,
    strategy: str = "range",
    instance: str | None = None,
    protocol: str = "classic",
    auto_commit: bool = False,
) -> None:
    if protocol != "classic":
        raise Lacks("it has only the classic group protocol")
    members[member] = Member(
        aio.AIOKafkaConsumer(
            topic,
            **settings(connection),
            group_id=group,
            group_instance_id=instance,
            partition_assignment_strategy=[chosen(STRATEGIES, strategy, "assignor")],
            session_timeout_ms=6000,
            heartbeat_interval_ms=300,
            enable_auto_commit=auto_commit,
            auto_commit_interval_ms=200,
            auto_offset_reset="earliest",
        )
    )


# Administration


@contextlib.asynccontextmanager
async def admin(connection: Connection) -> AsyncIterator[Any]:
    client = aio_admin.AIOKafkaAdminClient(**settings(connection))
    await client.start()
    try:
        yield client
    finally:
        await client.close()


def by_admin(call: Callable[..., Coroutine[Any, Any, Any]]) -> Callable[..., Coroutine[Any, Any, Any]]:
    """Return a call with an admin client for its connection."""

    async def run(connection: Connection, **arguments: Any) -> Any:
        async with admin(connection) as client:
            return await call(client, **arguments)

    return run


def raised(code: int) -> None:
    if code:
        raise aiokafka.errors.for_code(code)()


def topic_resource(topic: str, configs: Any = None) -> Any:
    kind = aiokafka.admin.config_resource.ConfigResourceType.TOPIC
    return aiokafka.admin.config_resource.ConfigResource(kind, topic, configs)


async def create_topic(client: Any, topic: str, partitions: int, configs: dict[str, str]) -> None:
    found = await client.create_topics([aio_admin.NewTopic(topic, partitions, 1, topic_configs=configs)])
    for each in found.topic_errors:
        raised(each[1])


async def delete_topic(client: Any, topic: str) -> None:
    for each in (await client.delete_topics([topic])).topic_error_codes:
        raised(each[1])


async def list_topics(client: Any) -> Any:
    return await client.list_topics()


async def describe_topic(client: Any, topic: str) -> Any:
    (found,) = await client.describe_topics([topic])
    raised(found["error_code"])
    return sorted([each["partition"], each["leader"], each["replicas"]] for each in found["partitions"])


async def add_partitions(client: Any, topic: str, count: int) -> None:
    found = await client.create_partitions({topic: aio_admin.NewPartitions(count)})
    for each in found.topic_errors:
        raised(each[1])


async def describe_configs(client: Any, topic: str, keys: list[str]) -> Any:
    (found,) = await client.describe_configs([topic_resource(topic)])
    ((code, _, _, _, entries),) = found.resources
    raised(code)
    return {each[0]: each[1] for each in entries if each[0] in keys}


async def replace_configs(client: Any, topic: str, configs: dict[str, str]) -> None:
    (found,) = await client.alter_configs([topic_resource(topic, configs)])
    for each in found.resources:
        raised(each[0])


async def list_groups(client: Any) -> Any:
    return [each[0] for each in await client.list_consumer_groups()]


async def describe_group(client: Any, group: str) -> Any:
    (found,) = await client.describe_consumer_groups([group])
    ((code, _, state, _, _, members, *_),) = found.groups
    raised(code)
    return {"state": state, "members": len(members)}


async def group_offsets(client: Any, group: str, topic: str) -> Any:
    found = await client.list_consumer_group_offsets(group)
    return [[each.topic, each.partition, at.offset] for each, at in found.items()]


async def delete_records(client: Any, topic: str, partition: int, before: int) -> None:
    await client.delete_records({part(topic, partition): aio_admin.RecordsToDelete(before)})


async def describe_cluster(client: Any) -> Any:
    found = await client.describe_cluster()
    return {"id": found["cluster_id"], "brokers": len(found["brokers"]), "controller": found["controller_id"]}


ADMIN: dict[str, Callable[..., Coroutine[Any, Any, Any]]] = {
    "create_topic": create_topic,
    "delete_topic": delete_topic,
    "list_topics": list_topics,
    "describe_topic": describe_topic,
    "add_partitions": add_partitions,
    "describe_configs": describe_configs,
    "replace_configs": replace_configs,
    "list_groups": list_groups,
    "describe_group": describe_group,
    "group_offsets": group_offsets,
    "delete_records": delete_records,
    "describe_cluster": describe_cluster,
}
CALLS: dict[str, Callable[..., Coroutine[Any, Any, Any]]] = {
    "produce": produce,
    "fetch": fetch,
    "offsets": offsets,
    "join": join,
    "state": lambda member, connection: members[member].state(),
    "tell": lambda member, connection, **told: members[member].tell(**told),
    "leave": lambda member, connection: members.pop(member).leave(),
    **{name: by_admin(call) for name, call in ADMIN.items()},
}


def main() -> None:
    loop = asyncio.new_event_loop()
    threading.Thread(target=loop.run_forever, daemon=True).start()

    def in_loop(call: Callable[..., Coroutine[Any, Any, Any]]) -> Callable[..., Any]:
        return lambda **arguments: asyncio.run_coroutine_threadsafe(call(**arguments), loop).result()

    serve({name: in_loop(call) for name, call in CALLS.items()}, code_of)


if __name__ == "__main__":
    main()
