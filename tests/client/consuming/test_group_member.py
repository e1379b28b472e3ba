"""Members of a group share its partitions, and continue at the offsets that other members committed."""

import re
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager

import confluent_kafka
import pytest
import trio

from ottla import Broker
from ottla.client.admin.groups.committed_offsets import Committed, committed_offsets
from ottla.client.admin.topics import NewTopic, create_partitions, create_topics
from ottla.client.cluster import Client, open_client
from ottla.client.config import ClientConfig
from ottla.client.consuming.consumer import open_consumer
from ottla.client.consuming.group_member import GroupMember, open_member
from ottla.client.producing.producer import open_producer
from ottla.wire.config_def import ConfigError
from ottla.wire.errors import ErrorCode, KafkaError
from ottla.wire.types import TopicPartition

pytestmark = pytest.mark.slow
PATIENCE_S = 120
QUICK = {"auto.offset.reset": "earliest", "heartbeat.interval.ms": "50", "metadata.max.age.ms": "200"}


@pytest.fixture(scope="module")
def broker() -> Iterator[Broker]:
    with Broker() as running:
        yield running


class Group:
    """A topic of its own, and a group that reads it."""

    def __init__(self, broker: Broker, name: str) -> None:
        self.name = name
        self.bootstrap = broker.bootstrap

    @asynccontextmanager
    async def client(self, **properties: str) -> AsyncIterator[Client]:
        more = {key.replace("_", "."): value for key, value in properties.items()}
        where = {"bootstrap.servers": self.bootstrap, "group.id": self.name}
        with trio.fail_after(PATIENCE_S):
            async with open_client(ClientConfig({**QUICK, **where, **more})) as client:
                yield client

    async def create(self, client: Client, partitions: int) -> None:
        await create_topics(client, [NewTopic(self.name, partitions)])

    async def produce(self, client: Client, first: int, behind: int) -> None:
        async with open_producer(client) as producer:
            for number in range(first, behind):
                await producer.send(self.name, b"%d" % number, b"%d" % number)

    @asynccontextmanager
    async def member(self, client: Client, pattern: str | None = None) -> AsyncIterator[GroupMember]:
        compiled = None if pattern is None else re.compile(pattern)
        async with (
            open_consumer(client) as consumer,
            open_member(client, consumer, [self.name], compiled) as member,
        ):
            yield member

    async def committed(self, client: Client) -> dict[int, int]:
        found = (await committed_offsets(client, [self.name]))[self.name]
        assert not isinstance(found, KafkaError)
        return {each.partition: offset.offset for each, offset in found.items()}


@pytest.fixture
def group(broker: Broker, request: pytest.FixtureRequest) -> Group:
    return Group(broker, re.sub(r"\W", "-", request.node.name))


async def take(member: GroupMember, found: list[int], count: int) -> None:
    """Add the values of records until there are so many."""
    while len(found) < count:
        chunk = await member.next()
        assert chunk is not None
        found += [int(record.value or b"") for _, record in chunk.records()]
        member.processed(chunk.partition, chunk.next_offset, chunk.leader_epoch)


async def test_a_member_reads_all_and_commits_when_it_leaves(group: Group) -> None:
    async with group.client() as client:
        await group.create(client, 3)
        await group.produce(client, 0, 100)
        found: list[int] = []
        async with group.member(client) as member:
            await take(member, found, 100)
            assert len(member.assigned) == 3
        assert sorted(found) == list(range(100))
        assert sum((await group.committed(client)).values()) == 100
        await group.produce(client, 100, 110)
        async with group.member(client) as member:
            await take(member, found, 110)
        assert sorted(found) == list(range(110))


async def test_a_partition_without_records_is_committed_too(group: Group) -> None:
    async with group.client() as client:
        await group.create(client, 2)
        async with open_producer(client) as producer:
            await producer.deliver(group.name, b"1", partition=1)
        async with group.member(client) as member:
            await take(member, [], 1)
        committed = (await committed_offsets(client, [group.name]))[group.name]
        assert committed == {
            TopicPartition(group.name, 0): Committed(0),
            TopicPartition(group.name, 1): Committed(1, 0),
        }


async def test_without_auto_commit_only_the_caller_commits(group: Group) -> None:
    async with group.client(enable_auto_commit="false") as client:
        await group.create(client, 1)
        await group.produce(client, 0, 4)
        async with group.member(client) as member:
            await take(member, [], 4)
        assert await group.committed(client) == {}
        async with group.member(client) as member:
            await take(member, [], 4)
            await member.commit()
        assert await group.committed(client) == {0: 4}


async def test_the_callbacks_get_assigned_and_revoked_partitions(group: Group) -> None:
    async with group.client() as client:
        await group.create(client, 2)
        told: list[tuple[str, list[int]]] = []
        async with group.member(client) as member:
            member.on_assigned = lambda given: told.append(("given", [each.partition for each in given]))
            member.on_revoked = lambda taken: told.append(("taken", [each.partition for each in taken]))
            assert await member.next(0.01) is None
            assert told == [("given", [0, 1])]
            await create_partitions(client, {group.name: 3})
            while told[-1] != ("given", [0, 1, 2]):
                await member.next(0.01)
        assert told == [("given", [0, 1]), ("taken", [0, 1]), ("given", [0, 1, 2]), ("taken", [0, 1, 2])]


async def test_the_caller_can_commit_given_offsets(group: Group) -> None:
    async with group.client(enable_auto_commit="false") as client:
        await group.create(client, 2)
        async with group.member(client) as member:
            await member.next(0.01)
            await member.commit({TopicPartition(group.name, 1): (7, -1)})
            await member.commit({})
        assert await group.committed(client) == {1: 7}


async def test_offsets_are_committed_while_the_member_reads(group: Group) -> None:
    async with group.client(auto_commit_interval_ms="20") as client:
        await group.create(client, 1)
        await group.produce(client, 0, 4)
        async with group.member(client) as member:
            await take(member, [], 4)
            while await group.committed(client) != {0: 4}:
                await trio.sleep(0.01)


@pytest.mark.once
async def test_members_share_partitions_and_read_each_record_once(group: Group) -> None:
    found: dict[str, list[int]] = {"a": [], "b": []}
    shares: dict[str, int] = {}

    async def read(name: str, all_read: trio.Event) -> None:
        async with group.client() as client, group.member(client) as member:
            while not all_read.is_set():
                chunk = await member.next(0.05)
                shares[name] = len(member.assigned)
                if chunk is not None:
                    found[name] += [int(record.value or b"") for _, record in chunk.records()]
                    member.processed(chunk.partition, chunk.next_offset)
                if sum(map(len, found.values())) == 400:
                    all_read.set()

    async with group.client() as client:
        await group.create(client, 4)
        await group.produce(client, 0, 200)
        async with trio.open_nursery() as nursery:
            all_read = trio.Event()
            nursery.start_soon(read, "a", all_read)
            while len(found["a"]) < 200:
                await trio.sleep(0.01)
            nursery.start_soon(read, "b", all_read)
            while shares != {"a": 2, "b": 2}:
                await trio.sleep(0.01)
            await group.produce(client, 200, 400)
        assert sorted(found["a"] + found["b"]) == list(range(400))
        assert found["b"]


async def test_a_stock_client_and_a_member_share_a_group(group: Group) -> None:
    async with group.client() as client:
        await group.create(client, 4)
        async with group.member(client) as member:
            assert await member.next(0) is None
            assert len(member.assigned) == 4
            stock = confluent_kafka.Consumer(
                {
                    "bootstrap.servers": group.bootstrap,
                    "group.id": group.name,
                    "partition.assignment.strategy": "range",
                    "log_level": 0,
                }
            )
            stock.subscribe([group.name])
            while len(stock.assignment()) != 2 or len(member.assigned) != 2:
                await trio.to_thread.run_sync(stock.poll, 0.01)
                await member.next(0.01)
            stock.close()
            while len(member.assigned) != 4:
                await member.next(0.01)


async def test_new_partitions_and_topics_are_assigned_to_the_member(group: Group) -> None:
    async with group.client() as client:
        await group.create(client, 1)
        async with group.member(client) as named, open_client(client.config) as another:
            await named.next(0)
            assert len(named.assigned) == 1
            await create_partitions(another, {group.name: 3})
            while len(named.assigned) != 3:
                await named.next(0.01)


async def test_a_pattern_matches_later_topics(group: Group) -> None:
    async with group.client() as client, group.member(client, f"{group.name}.*") as member:
        await member.next(0)
        assert member.assigned == []
        await create_topics(client, [NewTopic(f"{group.name}-later", 2)])
        while len(member.assigned) != 2:
            await member.next(0.01)


async def test_a_group_without_offsets_needs_a_reset(group: Group) -> None:
    async with group.client(auto_offset_reset="none") as client:
        await group.create(client, 1)
        async with group.member(client) as member:
            with pytest.raises(KafkaError, match=r"auto\.offset\.reset=none"):
                await member.next()


async def test_an_invalid_group_name_is_refused(group: Group) -> None:
    async with group.client(group_id="") as client:
        with pytest.raises(KafkaError) as raised:
            async with group.member(client):
                pass
    assert raised.value.code == ErrorCode.INVALID_GROUP_ID


async def test_an_unknown_assignor_is_refused(group: Group) -> None:
    async with group.client(partition_assignment_strategy="sticky") as client:
        with pytest.raises(ConfigError, match="there is no 'sticky', only range, roundrobin"):
            async with group.member(client):
                pass
