"""Scenarios sent to Ottla and to an Apache Kafka, act by act, and the differences of the answers."""

import socket
import struct
import time
from collections.abc import Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any, Final, NamedTuple

from compat_tests.differential.both import Answer
from compat_tests.differential.generated.generator import Step
from compat_tests.differential.generated.own import Learned
from compat_tests.differential.generated.pair import ONE_THREAD, PATIENCE_S, Exchange, Pair, Side
from compat_tests.differential.generated.session import READS, SETTLING_S
from compat_tests.differential.generated.specification import Field, key_of, requests
from compat_tests.transactions.illegal.acts import BESIDE, LAST, STRANGE, Act
from compat_tests.transactions.illegal.allowed import Allowed

SETTINGS: Final = (
    *ONE_THREAD,
    "group.initial.rebalance.delay.ms=0",
    "offsets.topic.num.partitions=1",
    "offsets.topic.replication.factor=1",
    "transaction.state.log.num.partitions=3",
    "transaction.state.log.replication.factor=1",
    "transaction.state.log.min.isr=1",
    # For the scenarios with short timeouts. All other transactions have long ones.
    "transaction.abort.timed.out.transaction.cleanup.interval.ms=50",
    # No background work, because each broker would do it at another time.
    "log.cleaner.enable=false",
    "log.retention.ms=-1",
)
ME_IN_ZOOKEEPER: Final = ("broker.id=1", "auto.leader.rebalance.enable=false")
"""More settings, for brokers that are not in KRaft mode."""
_PARTITIONS_OF_A_PAGE: Final = 50
_BETWEEN_LOOKS_S: Final = 0.002
_STRANGE_ID: Final = 900_000_000
_CREATE_TOPICS: Final = 19
# A version of InitProducerId whose response has no tags: correlation id, throttle time, error, producer id and epoch.
_PLAIN_VERSION: Final = 1
_INIT_RESPONSE: Final = struct.Struct(">iihqh")


class Scenario(NamedTuple):
    """Acts in their order. Those of the API `subject` are sent in each of its versions, in one run for each."""

    name: str
    subject: str
    acts: tuple[Act, ...]


class Values(Learned):
    """The values of a broker in one run of a scenario, which has a partition of its own."""

    def __init__(self, side: Side, run: int, page: str, partition: int) -> None:
        super().__init__(side.names, f"s{run}-", {**side.facts, "partition": partition})
        self._page_name = page
        self._strange = _STRANGE_ID + run, 0

    def _page(self, name: str, number: int) -> str:
        return self._page_name

    def _identity(self, number: int) -> tuple[int, int]:
        return self._strange if number == STRANGE else super()._identity(-1 if number == LAST else number)


class Stage:
    """Two brokers, and the differences between them that are allowed."""

    def __init__(self, pair: Pair, allowed: Sequence[Allowed] = ()) -> None:
        self._pair = pair
        self._allowed = allowed
        self._met: set[Allowed] = set()
        self._played: set[tuple[str, int]] = set()
        self._runs = 0
        self._versions: dict[int, list[int]] = {}
        for key, version in pair.common_versions():
            if version <= requests()[key].highest:
                self._versions.setdefault(key, []).append(version)
        pair.warm_up()
        self._create(BESIDE.topic, 1)

    def versions(self, scenario: Scenario) -> list[int]:
        """Return the versions of the scenario's subject that both brokers offer."""
        acts = [each for each in scenario.acts if each.api == scenario.subject]
        found = {version for each in acts for version in self._offered(each)}
        assert found, f"{scenario.name}: no version of {scenario.subject}"
        return sorted(found)

    def _offered(self, act: Act) -> list[int]:
        return [each for each in self._versions[key_of(act.api)] if act.lowest <= each <= act.highest]

    def play(self, scenario: Scenario, version: int) -> str | None:
        """Run a scenario with one version of its subject. Return what differs, None if nothing does."""
        self._begin()
        self._played.add((scenario.name, version))
        done = []
        for act in scenario.acts:
            offered = self._offered(act)
            chosen = version if act.api == scenario.subject and version in offered else offered[-1]
            key = key_of(act.api)
            step = Step(key, chosen, _fitting(act.fields, requests()[key].fields(chosen)), act.line)
            done.append(step)
            if act.until:
                self._wait(step, act.until)
            if act.until_epoch >= 0:
                self._raise_epoch(step, act.until_epoch)
            for exchange in self._pair.ask(step):
                left, is_over = self._judge(scenario, exchange)
                if left and act.api in READS:
                    exchange, left, is_over = self._ask_again(scenario, step)
                if left:
                    return _told(scenario, done, exchange, left)
                if is_over:
                    return None
            self._settle(act)
        return None

    def never_met(self, scenarios: Iterable[Scenario]) -> list[Allowed] | None:
        """Return the allowed differences that were never found; None if a scenario was not played in all versions."""
        wanted = {(each.name, version) for each in scenarios for version in self.versions(each)}
        return [each for each in self._allowed if each not in self._met] if wanted <= self._played else None

    def _judge(self, scenario: Scenario, exchange: Exchange) -> tuple[list[str], bool]:
        """Return the differences that are not allowed, and whether the states of both brokers now differ."""
        left, is_over = [], False
        for each in exchange.differences:
            rule = next((rule for rule in self._allowed if rule.covers(scenario.name, each)), None)
            if rule is None:
                left.append(str(each))
            else:
                self._met.add(rule)
                is_over |= rule.parts
        return left, is_over

    def _ask_again(self, scenario: Scenario, step: Step) -> tuple[Exchange, list[str], bool]:
        """Repeat a request that changes nothing, because Kafka's groups see the end of a transaction later."""
        deadline = time.monotonic() + SETTLING_S
        while True:
            (exchange,) = self._pair.ask(step)
            left, is_over = self._judge(scenario, exchange)
            if not left or time.monotonic() > deadline:
                return exchange, left, is_over
            time.sleep(_BETWEEN_LOOKS_S)

    def _begin(self) -> None:
        page, partition = divmod(self._runs, _PARTITIONS_OF_A_PAGE)
        if partition == 0:
            self._create(f"page-{page}", _PARTITIONS_OF_A_PAGE)
        self._pair.owed.clear()
        for side in self._pair.sides:
            side.learned = Values(side, self._runs, f"page-{page}", partition)
        self._runs += 1

    def _create(self, name: str, partitions: int) -> None:
        self._pair.begin("")
        topic = {"name": name, "numPartitions": partitions, "replicationFactor": 1, "assignments": [], "configs": []}
        for side in self._pair.sides:
            (created,) = side.ask(_CREATE_TOPICS, 4, {"topics": [topic], "timeoutMs": 30_000, "validateOnly": False})[
                "topics"
            ]
            assert created["error_code"] == 0, f"{side.broker.name}: {created}"
        self._pair.settle_topics([name], {name: partitions})

    def _wait(self, step: Step, states: Sequence[str]) -> None:
        """Wait until the transactional ids of a DescribeTransactions are in one of these states, on both sides."""
        deadline = time.monotonic() + PATIENCE_S
        for side in self._pair.sides:
            while True:
                answer = side.ask(step.key, step.version, side.learned.value(step.fields))
                if all(each["transaction_state"] in states for each in answer["transaction_states"]):
                    break
                assert time.monotonic() < deadline, f"{side.broker.name}: not one of {states}: {answer}"
                time.sleep(_BETWEEN_LOOKS_S)

    def _raise_epoch(self, step: Step, epoch: int) -> None:
        """Initialize a transactional id again and again, until its epoch is this one on both sides."""
        with ThreadPoolExecutor() as pool:
            wanted = [
                self._pair.sides.kafka.codec.request(
                    step.key, _PLAIN_VERSION, step.line, side.learned.value(step.fields)
                )
                for side in self._pair.sides
            ]
            ports = [side.broker.port for side in self._pair.sides]
            assert list(pool.map(_raised, ports, wanted, [epoch] * 2)) == [epoch] * 2

    def _settle(self, act: Act) -> None:
        """Wait until a change of the scenario's topic has taken effect."""
        if act.api in ("CreateTopics", "DeleteTopics"):
            self._pair.settle_topics(["mine"], {})


def _raised(port: int, request: bytes, epoch: int) -> int:
    """Send the same InitProducerId until it returns an epoch; return the last one."""
    found = -1
    with socket.create_connection(("127.0.0.1", port), PATIENCE_S) as connection:
        while found < epoch:
            connection.sendall(struct.pack(">i", len(request)) + request)
            (size,) = struct.unpack(">i", connection.recv(4, socket.MSG_WAITALL))
            _, _, code, _, found = _INIT_RESPONSE.unpack(connection.recv(size, socket.MSG_WAITALL))
            assert code == 0, f"error {code} after epoch {found}"
    return found


def _fitting(value: Answer, fields: Sequence[Field]) -> Answer:
    """Return the fields that a version has."""
    return {each.name: _inner(value[each.name], each) for each in fields}


def _inner(value: Any, field: Field) -> Any:
    return [_fitting(each, field.fields) for each in value] if field.fields and value is not None else value


def _told(scenario: Scenario, steps: Sequence[Step], exchange: Exchange, left: Sequence[str]) -> str:
    acts = "\n".join(f"    {each.api} v{each.version} {each.fields}" for each in steps)
    found = "\n".join(f"    {each}" for each in left)
    answers = exchange.answers
    return f"{scenario.name}\n{acts}\n{found}\n    Ottla: {answers.ottla}\n    Kafka: {answers.kafka}\n"
