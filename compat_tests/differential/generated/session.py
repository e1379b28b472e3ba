"""Sessions: sequences of requests that change the state of both brokers.

A session ends after `LENGTH` requests, after a difference that is not allowed, or after the states of both differ.
"""

import random
import time
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from typing import Any, Final, NamedTuple

from compat_tests.differential.both import Answer, Difference, PerSide
from compat_tests.differential.generated import allowed
from compat_tests.differential.generated.conditions import Asked, Sent
from compat_tests.differential.generated.generator import GROUPS, Adjustment, Generator, Step
from compat_tests.differential.generated.own import NO_ID, Own
from compat_tests.differential.generated.pair import Exchange, Pair, Side
from compat_tests.differential.generated.specification import key_of, requests

LENGTH: Final = 120
SETTLING_S: Final = 10.0
NONE, TIMED_OUT = 0, 7
LEAVE_GROUP, DELETE_TOPICS, INIT_PRODUCER_ID, DELETE_GROUPS = 13, 20, 22, 42
INSTANCES: Final = ("i0", "i1", "i2", "")
# Requests that change nothing, and are retried, because Kafka may give the same answer as Ottla a moment later.
READS: Final = frozenset(
    {"DescribeCluster", "DescribeConfigs", "DescribeGroups", "DescribeLogDirs", "DescribeProducers", "FindCoordinator"}
    | {"ListGroups", "ListOffsets", "ListPartitionReassignments", "Metadata", "OffsetFetch", "OffsetForLeaderEpoch"}
    | {"DescribeTransactions", "ListTransactions"}
)
CHANGES_OF_TOPICS: Final = ("CreateTopics", "DeleteTopics", "CreatePartitions", "Metadata")
CHANGES_OF_CONFIGS: Final = ("AlterConfigs", "IncrementalAlterConfigs")
# Requests that may end a transaction, whose markers come after the answer.
ENDS_OF_TRANSACTIONS: Final = ("EndTxn", "InitProducerId")
# Requests that only brokers send: the controller's, and those about replicas to the controller.
OF_BROKERS: Final = frozenset(
    {"LeaderAndIsr", "StopReplica", "UpdateMetadata", "ControlledShutdown", "AlterPartition", "AllocateProducerIds"}
)


class Kind(NamedTuple):
    """The requests of sessions. Half of them come in turn, the other half by weights."""

    in_turn: Callable[[str], bool]
    """Returns whether all versions of an API come in turn."""
    weights: Mapping[str, int]
    """How often the other half is of each API, with all of its versions equally often."""
    opening: Sequence[tuple[str, int]]
    """The first requests of each session."""
    adjustments: Mapping[str, Adjustment] = {}
    unserved: Collection[tuple[str, int]] = ()
    """Versions that come only in turn, because the session ends with them."""
    prepare: Callable[[Side], None] = lambda side: None
    """Called with each side before each session."""
    is_tidy: bool = True
    """Whether the topics and groups of a session are removed at its end."""
    spoils: Callable[[Exchange], bool] = lambda exchange: False
    """Returns whether a request makes other sessions on these brokers impossible."""


_WEIGHTS: Final = {
    "Produce": 8, "Fetch": 6, "ListOffsets": 2, "Metadata": 2, "CreateTopics": 3, "DeleteTopics": 1,
    "CreatePartitions": 1, "JoinGroup": 8, "SyncGroup": 8, "Heartbeat": 3, "LeaveGroup": 3, "OffsetCommit": 6,
    "OffsetFetch": 3, "DescribeGroups": 2, "InitProducerId": 2, "DeleteRecords": 2, "DeleteGroups": 1,
    "OffsetDelete": 2, "DescribeProducers": 1, "IncrementalAlterConfigs": 2, "AddPartitionsToTxn": 4,
    "AddOffsetsToTxn": 2, "EndTxn": 4, "TxnOffsetCommit": 4, "WriteTxnMarkers": 1,
}  # fmt: skip
OF_CLIENTS: Final = Kind(
    in_turn=lambda api: api not in OF_BROKERS,
    weights=_WEIGHTS,
    opening=(("CreateTopics", 5), ("CreateTopics", 7), *(("InitProducerId", 4),) * 3, ("Produce", 9)),
    unserved=(("Produce", 0), ("Produce", 1), ("Produce", 2)),
)


class Failure(NamedTuple):
    """The differences that ended a session, and the requests that led to them."""

    differences: tuple[Difference, ...]
    exchange: Exchange
    steps: tuple[Step, ...]
    number: int
    """The number of the session that first found it."""

    @property
    def kind(self) -> tuple[str, ...]:
        """Return the part of a failure that is equal for failures of the same cause."""
        return (self.steps[-1].api, *sorted({allowed.place(each) for each in self.differences}))

    def __str__(self) -> str:
        steps = "\n".join(f"  over {each.line!r}: {each.api} v{each.version} {each.fields}" for each in self.steps)
        found = "\n".join(f"  {each}" for each in self.differences)
        answers = self.exchange.answers
        return (
            f"the answers of session {self.number} differ. These requests are enough:\n{steps}\n"
            f"Differences in the answers to {self.exchange.step.api} v{self.exchange.step.version}:\n{found}\n"
            f"Ottla: {answers.ottla}\nKafka: {answers.kafka}"
        )


class Deck:
    """All pairs of an API and a version in random order, without repetition until all have come."""

    def __init__(self, pairs: Sequence[tuple[int, int]], kind: Kind, seed: str) -> None:
        self.in_turn = [(key, version) for key, version in pairs if kind.in_turn(requests()[key].name)]
        self._random = random.Random(seed)
        self._left: list[tuple[int, int]] = []
        unserved = {(key_of(api), version) for api, version in kind.unserved}
        self._pairs = [each for each in pairs if requests()[each[0]].name in kind.weights and each not in unserved]
        counts = Counter(key for key, _ in self._pairs)
        self._weights = [kind.weights[requests()[key].name] / counts[key] for key, _ in self._pairs]

    def draw(self, only_in_turn: bool = False) -> tuple[int, int]:
        """Return an API and a version of it."""
        if not only_in_turn and self._random.random() < 0.5:
            return self._random.choices(self._pairs, self._weights)[0]
        if not self._left:
            self._left = self._random.sample(self.in_turn, len(self.in_turn))
        return self._left.pop()


# Drawn at random, they bring their transactional ids into states that one broker leaves later than the other. The table
# of `compat_tests.transactions.illegal` compares them, in each state and version.
_OF_TRANSACTIONS: Final = (
    "AddPartitionsToTxn", "AddOffsetsToTxn", "EndTxn", "WriteTxnMarkers", "TxnOffsetCommit", "DescribeTransactions",
    "ListTransactions",
)  # fmt: skip


def drawn_versions(pair: Pair) -> list[tuple[int, int]]:
    """Return each API with each version that both brokers offer, without those of transactions."""
    left_out = {key_of(each) for each in _OF_TRANSACTIONS}
    return [each for each in pair.common_versions() if each[0] not in left_out]


class Sessions:
    """Runs sessions on one pair of brokers, one after the other."""

    def __init__(
        self,
        pair: Pair,
        seed: int,
        kind: Kind = OF_CLIENTS,
        asked: Counter[tuple[int, int]] | None = None,
        settling_s: float = SETTLING_S,
    ) -> None:
        """`asked` counts requests; for `settling_s`, requests that change nothing are retried after a difference."""
        self.pair = pair
        self.seed = seed
        self.asked = Counter[tuple[int, int]]() if asked is None else asked
        self.met: Counter[allowed.Rule] = Counter()
        self._kind = kind
        self._settling_s = settling_s
        self._deck = Deck(drawn_versions(pair), kind, f"{seed} deck")
        self._number = -1
        self.is_spoiled = False
        """Whether other sessions on these brokers are impossible. The last session has only requests in turn."""

    @property
    def in_turn(self) -> Sequence[tuple[int, int]]:
        """Return the APIs and versions that come in turn."""
        return self._deck.in_turn

    def never_asked(self) -> list[tuple[int, int]]:
        """Return the APIs and versions in turn that have not come yet."""
        return [each for each in self._deck.in_turn if not self.asked[each]]

    def run(self, length: int = LENGTH) -> Failure | None:
        """Run a new session; return its failure if there is one."""
        prefix = self._begin()
        opening = [(key_of(api), version) for api, version in self._kind.opening]
        generator = Generator(f"{self.seed} {prefix}", self.pair.sides.kafka.learned, self._kind.adjustments)
        return self._run(
            generator.request(*(opening.pop(0) if opening else self._deck.draw(only_in_turn=self.is_spoiled)))
            for _ in range(length)
        )

    def replay(self, steps: Sequence[Step]) -> Failure | None:
        """Run a session again, with other names."""
        self._begin()
        return self._run(steps)

    def _begin(self) -> str:
        self._number += 1
        prefix = f"s{self._number}-"
        self.pair.begin(prefix)
        for side in self.pair.sides:
            self._kind.prepare(side)
        return prefix

    def _run(self, wanted: Iterable[Step]) -> Failure | None:
        done: list[Step] = []
        try:
            for step in wanted:
                done.append(self._free(step))
                found, is_over = self._ask(done)
                if found or is_over:
                    return found
            return None
        finally:
            self._end()

    def _free(self, step: Step) -> Step:
        """Return the request with a connection that does not wait for an answer."""
        line = step.line
        while line in self.pair.owed:
            line += "'"
        return step._replace(line=line)

    def _ask(self, steps: list[Step]) -> tuple[Failure | None, bool]:
        """Send the last request; return a failure if there is one, and whether the session ends."""
        for exchange in self.pair.ask(steps[-1]):
            step = exchange.step
            self.asked[step.key, step.version] += 1
            left, is_over = self._judge(exchange, steps)
            if left and step.api in READS:
                exchange, left, is_over = self._ask_again(step, steps)
            self.is_spoiled |= self._kind.spoils(exchange)
            if left:
                return Failure(tuple(left), exchange, tuple(steps), self._number), True
            if is_over:
                return None, True
            self._settle(step, exchange.answers)
        return None, False

    def _ask_again(self, step: Step, steps: Sequence[Step]) -> tuple[Exchange, list[Difference], bool]:
        deadline = time.monotonic() + self._settling_s
        while True:
            (exchange,) = self.pair.ask(step)
            left, is_over = self._judge(exchange, steps)
            if not left or time.monotonic() > deadline:
                return exchange, left, is_over
            time.sleep(0.05)

    def _judge(self, exchange: Exchange, steps: Sequence[Step]) -> tuple[list[Difference], bool]:
        """Return the differences that are not allowed, and whether the states of both brokers now differ."""
        left = []
        is_over = allowed.ends_session(Sent(exchange.step.api, exchange.sent.kafka))
        earlier = [Sent(each.api, each.fields) for each in steps]
        asked = Asked(exchange.sent.kafka, exchange.answers, earlier)
        for each in exchange.differences:
            rule = allowed.rule(each, asked)
            if rule is None:
                left.append(each)
            else:
                self.met[rule] += 1
                is_over |= rule.parts
        return left, is_over

    def _settle(self, step: Step, answers: PerSide) -> None:
        """Wait until a requested change has taken effect."""
        if step.api in CHANGES_OF_TOPICS and _may_change(step):
            names = topics_of(step.fields)
            if step.api == "DeleteTopics":
                # Those that were named by their ids.
                names = sorted({*names, *self.pair.sides.kafka.learned.partitions})
            self.pair.settle_topics(names, self._partitions_to_come(step, answers.kafka))
        elif step.api in CHANGES_OF_CONFIGS and not step.fields["validateOnly"]:
            outcomes = answers.kafka.get("responses", ())
            if any(each["error_code"] == 0 for each in outcomes):
                self.pair.settle_configs()
        elif step.api in ENDS_OF_TRANSACTIONS and step.fields["transactionalId"]:
            self.pair.settle_transaction(step.fields["transactionalId"])

    def _partitions_to_come(self, step: Step, answer: Answer) -> dict[str, int]:
        """Return the partition counts of topics after a CreatePartitions that Kafka has accepted."""
        if step.api != "CreatePartitions":
            return {}
        accepted = {each["name"] for each in answer.get("results", ()) if each["error_code"] in (NONE, TIMED_OUT)}
        topics = self.pair.sides.kafka.learned.value(step.fields)["topics"]
        return {each["name"]: each["count"] for each in topics if each["name"] in accepted}

    def _end(self) -> None:
        """Remove the session's topics and groups."""
        self.pair.close()
        if self.is_spoiled or not self._kind.is_tidy:
            return
        for side in self.pair.sides:
            _end_transactions(side)
            _remove_groups(side)
            _remove_topics(side)


def topics_of(value: Any) -> list[str]:
    """Return the topics of this session in a request, by name or by id."""
    if isinstance(value, Own):
        return [value.name] if value.kind in ("topic", "topic_id") and not value.number else []
    if isinstance(value, dict):
        value = list(value.values())
    return sorted({name for each in value for name in topics_of(each)}) if isinstance(value, list) else []


def _may_change(step: Step) -> bool:
    return not step.fields.get("validateOnly") and bool(step.fields.get("allowAutoTopicCreation", True))


def _end_transactions(side: Side) -> None:
    """Abort open transactions, which their coordinators would do later."""
    for name in {*side.learned.transactional.values()}:
        asked = {"transactionalId": side.learned.value(Own("transactional_id", name)), "transactionTimeoutMs": 60_000}
        side.ask(INIT_PRODUCER_ID, 4, {**asked, "producerId": -1, "producerEpoch": -1})


def _remove_groups(side: Side) -> None:
    groups = sorted({*(side.learned.value(Own("group", each)) for each in GROUPS), *side.learned.members})
    for group in groups:
        leaving = [{"memberId": each, "groupInstanceId": None, "reason": None} for each in side.learned.members[group]]
        leaving += [{"memberId": "", "groupInstanceId": each, "reason": None} for each in INSTANCES]
        side.ask(LEAVE_GROUP, 5, {"groupId": group, "members": leaving})
    side.ask(DELETE_GROUPS, 2, {"groupsNames": groups})


def _remove_topics(side: Side) -> None:
    names = [each["name"] for each in side.metadata(None)["topics"] if each["name"].startswith(side.learned.prefix)]
    if names:
        topics = [{"name": name, "topicId": NO_ID} for name in names]
        side.ask(DELETE_TOPICS, 6, {"topics": topics, "timeoutMs": 30_000})
    side.names.topics = {key: name for key, name in side.names.topics.items() if name not in names}
