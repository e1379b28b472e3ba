"""Stock consumers in groups: sharing partitions, joining, leaving and crashing."""

import contextlib
import itertools
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from compat_tests.groups.groups import BROKERS, SETTINGS, SHORT_SESSION_MS, fill
from compat_tests.groups.members import CLIENTS, JAVA, SESSION_TIMEOUT_MS, Member, shared, wait_until
from compat_tests.support.brokers import Broker, running
from compat_tests.support.clients import create_topic

pytestmark = pytest.mark.slow
LONG_SESSION_MS = 60_000
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
        # A member that leaves sends LeaveGroup, so the rebalance does not wait for its session timeout.
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
        if client == "aiokafka":
            # This client does not know the error that fences it: it would join again, and sometimes take the name back.
            one.freeze()
        with Member(broker, client, topic, topic, instance="only", session_timeout_ms=LONG_SESSION_MS) as two:
            wait_until(lambda: len(two.read) == 2, two)
            fill(broker, topic, 1, range(2))
            wait_until(lambda: len(two.read) == 4, two)


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
            # The first member is the leader, so each client is the leader once.
            members.pop(0).close()
            wait_until(shared(topic, 6, *members), *members)
        fill(broker, topic, 5, range(6))
        new = {(partition, offset) for partition in range(6) for offset in range(5, 10)}
        wait_until(lambda: new <= set(members[0].read), *members)
