"""Stock consumers in groups: sharing partitions, coming and going, crashing, committing, and reading again."""

import contextlib
import itertools
import json
import re
import time
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import confluent_kafka
import pytest

from compat_tests.brokers import ApacheKafka, Broker, Ottla, run_tool, running
from compat_tests.clients import create_topic
from compat_tests.members import JAVA, PATIENCE_S, SESSION_TIMEOUT_MS, Member, shared, wait_until

pytestmark = pytest.mark.slow
BROKERS = [Ottla, ApacheKafka]
# For those of whose end the group is not told.
SHORT_SESSION_MS = 3_000
LONG_SESSION_MS = 60_000
SETTINGS = [
    *("group.initial.rebalance.delay.ms=300", "offsets.topic.num.partitions=5", "group.max.size=4"),
    f"group.min.session.timeout.ms={SHORT_SESSION_MS}",
]

CLIENTS = ("kafka-python", "confluent-kafka", "aiokafka", JAVA)
STRATEGIES = [
    *itertools.product(CLIENTS, ("range", "roundrobin")),
    ("kafka-python", "sticky"),
    ("aiokafka", "sticky"),
    (JAVA, "sticky"),
    ("kafka-python", "cooperative-sticky"),
    ("confluent-kafka", "cooperative-sticky"),
    (JAVA, "cooperative-sticky"),
]


@pytest.fixture(scope="module", params=BROKERS, ids=[kind.name for kind in BROKERS])
def broker(request: pytest.FixtureRequest) -> Iterator[Broker]:
    with running(request.param, SETTINGS) as broker:
        yield broker


def fill(broker: Broker, topic: str, count: int = 10, partitions: Sequence[int] = (0,)) -> None:
    """Append records to some partitions."""
    producer = confluent_kafka.Producer({"bootstrap.servers": broker.bootstrap})
    for number in range(count):
        for partition in partitions:
            producer.produce(topic, value=b"%d" % number, partition=partition)
    assert producer.flush(PATIENCE_S) == 0


def committed(broker: Broker, group: str, topic: str, partition: int = 0) -> int:
    """Return what a group has committed."""
    consumer = confluent_kafka.Consumer({"bootstrap.servers": broker.bootstrap, "group.id": group})
    (found,) = consumer.committed([confluent_kafka.TopicPartition(topic, partition)], timeout=PATIENCE_S)
    consumer.close()
    assert found.error is None
    return int(found.offset)


def offsets(first: int, end: int) -> list[tuple[int, int]]:
    """Return what reading partition 0 from one offset to before another gives."""
    return [(0, offset) for offset in range(first, end)]


@pytest.mark.parametrize(("client", "strategy"), STRATEGIES)
def test_members_share_partitions_as_they_come_and_go(broker: Broker, topic: str, client: str, strategy: str) -> None:
    create_topic(broker.bootstrap, topic, 6)
    with contextlib.ExitStack() as stack:

        def join(name: str) -> Member:
            return stack.enter_context(Member(broker, client, topic, topic, strategy=strategy, client_id=name))

        one = join("one")
        wait_until(shared(topic, 6, one), one)
        two = join("two")
        wait_until(shared(topic, 6, one, two), one, two)
        three = join("three")
        wait_until(shared(topic, 6, one, two, three), one, two, three)
        one.close()
        # Who leaves says so: nobody waits for its session to end.
        wait_until(shared(topic, 6, two, three), two, three, patience_s=SESSION_TIMEOUT_MS / 1000)


@pytest.mark.parametrize("client", ["kafka-python", "confluent-kafka", JAVA])
def test_cooperative_members_keep_what_they_need_not_give(broker: Broker, topic: str, client: str) -> None:
    create_topic(broker.bootstrap, topic, 4)
    with Member(broker, client, topic, topic, strategy="cooperative-sticky") as one:
        wait_until(shared(topic, 4, one), one)
        with Member(broker, client, topic, topic, strategy="cooperative-sticky") as two:
            wait_until(shared(topic, 4, one, two), one, two)
            revoked = [event[1] for event in one.events if event[0] == "revoked" and event[1]]
            assert [len(each) for each in revoked] == [2]


@pytest.mark.parametrize("client", CLIENTS)
def test_a_crashed_member_is_out_when_its_session_ends(
    broker: Broker, topic: str, client: str, at_most: Callable[[float, float], None]
) -> None:
    create_topic(broker.bootstrap, topic, 4)
    short: dict[str, Any] = {"session_timeout_ms": SHORT_SESSION_MS}
    with Member(broker, client, topic, topic, **short) as one, Member(broker, client, topic, topic, **short) as two:
        wait_until(shared(topic, 4, one, two), one, two)
        two.crash()
        took_s = wait_until(shared(topic, 4, one), one)
        assert took_s > SHORT_SESSION_MS / 1000 - 2
        at_most(took_s, SHORT_SESSION_MS / 1000 + 5)


@pytest.mark.parametrize("client", CLIENTS)
def test_a_static_member_comes_back_and_nobody_notices(broker: Broker, topic: str, client: str) -> None:
    create_topic(broker.bootstrap, topic, 4)
    fill(broker, topic, 3, range(4))
    settings: dict[str, Any] = {"session_timeout_ms": LONG_SESSION_MS}
    with contextlib.ExitStack() as stack:
        one, two = (
            stack.enter_context(Member(broker, client, topic, topic, instance=name, **settings))
            for name in ("first", "second")
        )
        wait_until(shared(topic, 4, one, two), one, two)
        held, changes = two.assignment, one.changes()
        for end in (two.crash, two.close):
            end()
            two = stack.enter_context(Member(broker, client, topic, topic, instance="second", **settings))
            wait_until(lambda two=two: two.assignment == held, two)  # type: ignore[misc]
            wait_until(lambda two=two: len(two.read) == 6, two)  # type: ignore[misc]
        assert one.changes() == changes


@pytest.mark.parametrize("client", CLIENTS)
def test_who_comes_under_the_name_of_another_replaces_it(broker: Broker, topic: str, client: str) -> None:
    create_topic(broker.bootstrap, topic, 2)
    fill(broker, topic, 1, range(2))
    with Member(broker, client, topic, topic, instance="only", session_timeout_ms=LONG_SESSION_MS) as one:
        wait_until(lambda: len(one.read) == 2, one)
        with Member(broker, client, topic, topic, instance="only", session_timeout_ms=LONG_SESSION_MS) as two:
            wait_until(lambda: len(two.read) == 2, two)
            fill(broker, topic, 1, range(2))
            wait_until(lambda: len(two.read) == 4, two)


@pytest.mark.parametrize("client", CLIENTS)
def test_offsets_are_committed_by_themselves(broker: Broker, topic: str, client: str) -> None:
    create_topic(broker.bootstrap, topic)
    fill(broker, topic)
    with Member(broker, client, topic, topic, auto_commit=True) as one:
        wait_until(lambda: one.read == offsets(0, 10), one)
        wait_until(lambda: committed(broker, topic, topic) == 10, one)
        fill(broker, topic, 5)
        wait_until(lambda: one.read == offsets(0, 15), one)
        one.close()  # which commits what has not been
    assert committed(broker, topic, topic) == 15
    fill(broker, topic, 3)
    with Member(broker, client, topic, topic, auto_commit=True) as two:
        wait_until(lambda: two.read == offsets(15, 18), two)


@pytest.mark.parametrize("client", CLIENTS)
def test_what_was_not_committed_is_read_again(broker: Broker, topic: str, client: str) -> None:
    create_topic(broker.bootstrap, topic)
    fill(broker, topic)
    with Member(broker, client, topic, topic) as one:
        wait_until(lambda: one.read == offsets(0, 10), one)
        one.close()
    with Member(broker, client, topic, topic, session_timeout_ms=SHORT_SESSION_MS) as two:
        wait_until(lambda: two.read == offsets(0, 10), two)
        two.ask("commit")
        fill(broker, topic, 5)
        wait_until(lambda: two.read == offsets(0, 15), two)
        two.crash()
    assert committed(broker, topic, topic) == 10
    with Member(broker, client, topic, topic) as three:
        wait_until(lambda: three.read == offsets(10, 15), three)


@pytest.mark.parametrize("client", CLIENTS)
def test_a_group_without_offsets_begins_where_it_is_told_to(broker: Broker, topic: str, client: str) -> None:
    create_topic(broker.bootstrap, topic)
    fill(broker, topic)
    with Member(broker, client, topic, topic, reset="latest", auto_commit=True) as one:
        # What comes in before it has asked where the end is, it does not see.
        deadline = time.monotonic() + PATIENCE_S
        while not one.read:
            assert time.monotonic() < deadline, one
            fill(broker, topic, 1)
        assert one.read[0][1] >= 10
        one.close()
    with Member(broker, client, topic + "-other", topic, reset="earliest") as two:
        wait_until(lambda: two.read[:10] == offsets(0, 10), two)
    with Member(broker, client, topic, topic, reset="earliest") as three:
        fill(broker, topic, 1)
        wait_until(lambda: bool(three.read), three)
        assert three.read[0][1] == committed(broker, topic, topic)


@pytest.mark.parametrize("client", CLIENTS)
def test_without_an_offset_and_a_place_to_begin_there_is_an_error(broker: Broker, topic: str, client: str) -> None:
    create_topic(broker.bootstrap, topic)
    fill(broker, topic)
    with Member(broker, client, topic, topic, reset="none", session_timeout_ms=SHORT_SESSION_MS) as one:
        assert re.search("NoOffsetForPartition|no previously committed offset", one.failure())
        assert one.read == []
    with Member(broker, client, topic, topic) as two:
        wait_until(lambda: two.read == offsets(0, 10), two)
        two.ask("commit")
        two.close()
    with Member(broker, client, topic, topic, reset="none") as three:
        fill(broker, topic, 1)
        wait_until(lambda: three.read == offsets(10, 11), three)


@pytest.mark.parametrize("client", CLIENTS)
def test_a_member_reads_again_from_where_it_likes(broker: Broker, topic: str, client: str) -> None:
    create_topic(broker.bootstrap, topic)
    fill(broker, topic)
    with Member(broker, client, topic, topic) as one:
        wait_until(lambda: one.read == offsets(0, 10), one)
        one.ask("commit")
        one.ask(f"seek {topic} 0 7")
        wait_until(lambda: one.read == [*offsets(0, 10), *offsets(7, 10)], one)
        one.ask("rewind")
        wait_until(lambda: one.read[13:] == offsets(0, 10), one)
        one.ask(f"seek {topic} 0 4")
        one.ask("pause")
        seen = len(one.read)
        fill(broker, topic, 2)
        one.ask("pause")  # one more turn of its loop, at least
        assert len(one.read) - seen in (0, 6)
        one.ask("resume")
        wait_until(lambda: one.read[-8:] == offsets(4, 12), one)
        one.ask("commit")
    assert committed(broker, topic, topic) == 12


@pytest.mark.parametrize("client", CLIENTS)
def test_offsets_that_were_set_back_are_read_from(broker: Broker, topic: str, client: str) -> None:
    create_topic(broker.bootstrap, topic)
    fill(broker, topic)
    with Member(broker, client, topic, topic) as one:
        wait_until(lambda: one.read == offsets(0, 10), one)
        one.ask("commit")
        one.close()
    operator = confluent_kafka.Consumer({"bootstrap.servers": broker.bootstrap, "group.id": topic})
    operator.commit(offsets=[confluent_kafka.TopicPartition(topic, 0, 6)], asynchronous=False)
    operator.close()
    with Member(broker, client, topic, topic) as two:
        wait_until(lambda: two.read == offsets(6, 10), two)


def test_all_clients_share_one_group(broker: Broker, topic: str) -> None:
    create_topic(broker.bootstrap, topic, 6)
    with contextlib.ExitStack() as stack:
        members = []
        for client in CLIENTS:
            members.append(stack.enter_context(Member(broker, client, topic, topic, auto_commit=True)))
            wait_until(shared(topic, 6, *members), *members)
        with Member(broker, "confluent-kafka", topic, topic) as one_too_many:
            assert "GROUP_MAX_SIZE_REACHED" in one_too_many.failure()
        fill(broker, topic, 5, range(6))
        wait_until(lambda: sum(len(each.read) for each in members) == 30, *members)
        assert len({one for each in members for one in each.read}) == 30
        while len(members) > 1:
            # The first is the leader, so that each client is it in turn.
            members.pop(0).close()
            wait_until(shared(topic, 6, *members), *members)
        fill(broker, topic, 5, range(6))
        new = {(partition, offset) for partition in range(6) for offset in range(5, 10)}
        wait_until(lambda: new <= set(members[0].read), *members)


def test_the_java_consumers_go_on_where_the_group_was(broker: Broker, topic: str) -> None:
    create_topic(broker.bootstrap, topic)
    fill(broker, topic, 30)
    group = ("--bootstrap-server", broker.bootstrap, "--topic", topic, "--group", topic)
    printed = run_tool(
        "org.apache.kafka.tools.consumer.ConsoleConsumer",
        *(*group, "--from-beginning", "--max-messages", "10", "--timeout-ms", "20000"),
    )
    assert printed.splitlines()[:10] == [str(number) for number in range(10)]
    assert committed(broker, topic, topic) == 10
    printed = run_tool(
        "org.apache.kafka.tools.VerifiableConsumer",
        *("--bootstrap-server", broker.bootstrap, "--topic", topic, "--group-id", topic, "--max-messages", "10"),
    )
    told = [json.loads(line) for line in printed.splitlines() if line.startswith("{")]
    read = [each["partitions"][0] for each in told if each["name"] == "records_consumed"]
    assert (read[0]["minOffset"], read[-1]["maxOffset"]) == (10, 19)
    assert [each["success"] for each in told if each["name"] == "offsets_committed"][-1]
    assert committed(broker, topic, topic) == 20
    printed = run_tool("org.apache.kafka.tools.ConsumerPerformance", *group, "--messages", "10")
    assert re.search(r"^20\d\d-.*, 10, ", printed, re.MULTILINE), printed
