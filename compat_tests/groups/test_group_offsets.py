"""Stock consumers in groups: their first offsets, their commits, and records that they read again."""

import json
import re
import time
from collections.abc import Iterator

import confluent_kafka
import pytest

from compat_tests.groups.groups import BROKERS, SETTINGS, SHORT_SESSION_MS, committed, fill, offsets
from compat_tests.groups.members import CLIENTS, PATIENCE_S, Member, wait_until
from compat_tests.support.brokers import Broker, run_tool, running
from compat_tests.support.clients import create_topic

pytestmark = pytest.mark.slow


@pytest.fixture(scope="module", params=BROKERS, ids=[kind.name for kind in BROKERS])
def broker(request: pytest.FixtureRequest) -> Iterator[Broker]:
    with running(request.param, SETTINGS) as broker:
        yield broker


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
        # The member does not read records that arrive before it has looked up the end.
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
