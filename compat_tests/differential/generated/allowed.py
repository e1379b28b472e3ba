"""THE table: what Ottla answers otherwise than Kafka 3.9.2, what is not asked or not compared, and why.

`advertised` has what only one of them offers at all.
"""

import re
from collections.abc import Callable
from typing import Any, Final, NamedTuple

from compat_tests.differential.both import TEXT, Answer, Difference
from compat_tests.differential.generated import conditions
from compat_tests.differential.generated.conditions import BUG, NONE, Asked, Sent


class _Error:
    """Equals any error code but those of success and of a bug."""

    def __eq__(self, other: object) -> bool:
        return isinstance(other, int) and other > NONE

    def __hash__(self) -> int:
        return 0

    def __repr__(self) -> str:
        return "an error"


ERROR: Final = _Error()
NOTHING: Final = "nothing"


def always(asked: Asked) -> bool:
    """Say yes."""
    return True


class Rule(NamedTuple):
    """A difference that is meant: where (a regular expression), why, both values (`...` is any), after which requests.

    After one that `parts` the brokers the session ends, because their states differ.
    """

    where: str
    reason: str
    ottla: Any = ...
    kafka: Any = ...
    when: Callable[[Asked], bool] = always
    parts: bool = False

    def covers(self, found: Difference, asked: Asked) -> bool:
        """Say whether this is the difference that was found."""
        values = ((self.ottla, found.ottla), (self.kafka, found.kafka))
        is_here = re.search(self.where, found.where) is not None
        return is_here and all(a is ... or a == b for a, b in values) and self.when(asked)


class Requests(NamedTuple):
    """Requests of one API that are special, and why."""

    api: str
    are_so: Callable[[Answer], bool]
    reason: str


class Unanswered(NamedTuple):
    """A request that waits, and a later one after which the answer to the first is not compared; and why."""

    is_so: Callable[[Sent, Sent], bool]
    reason: str


_FAILS: Final = "Kafka fails on it, with the error that means a bug; Ottla answers the error that fits"
_NO_TRANSACTIONS: Final = "Ottla has no transactions, and no topic for them"
_WORDS: Final = "the words of messages may differ; most are those of Kafka 4.3"
_OLD_TIMES: Final = "Kafka cannot compress records anew that have a negative timestamp"
_TOO_EARLY: Final = "Ottla fails as Kafka does, but before it looks at partitions"

RULES: Final = (
    Rule("error_message$", _WORDS, TEXT, TEXT),
    Rule("^DeleteTopics .*error_message$", _WORDS, TEXT, None),
    Rule("^CreatePartitions .*error_message$", _WORDS, None, TEXT),
    Rule("^DescribeConfigs .*documentation$", "Ottla's configs have documents of their own", TEXT, TEXT),
    Rule("^DescribeConfigs .*results.8 .*configs", "loggers are Python's"),
    Rule("^ApiVersions .*api_keys", "`advertised.ONLY_ONE_SIDE` lists what differs there"),
    Rule("^Produce v[012].", "as Kafka 4: advertised for librdkafka's sake, and not served", parts=True),
    # Topics
    Rule("^Metadata .*__transaction_state", _NO_TRANSACTIONS, NOTHING),
    Rule("^DescribeLogDirs .*__transaction_state", _NO_TRANSACTIONS, NOTHING),
    Rule("^DescribeLogDirs .*__consumer_offsets.*partition_size", "Ottla writes commits in batches of its own"),
    Rule(
        "^DescribeLogDirs .*partition_size",
        "each compresses records anew in its own way",
        when=conditions.compresses_anew,
    ),
    Rule(
        "^CreateTopics",
        "as Kafka in KRaft mode: a topic that cannot work is not created",
        when=conditions.cannot_work,
        parts=True,
    ),
    Rule(
        "^(IncrementalAlter|Alter)Configs .*error_code", "as Kafka in KRaft mode: the topic's name is wrong first", 17
    ),
    Rule("^DeleteTopics .*error_code", "as Kafka in KRaft mode: nobody lacks a permission there", 42, 29),
    Rule("^DeleteTopics .* #.*error_code", "of a topic that is named twice Kafka tells the error once", 7, 0),
    # Transactions
    Rule("^InitProducerId", _NO_TRANSACTIONS, when=conditions.is_transactional, parts=True),
    Rule("^FindCoordinator", _NO_TRANSACTIONS, when=conditions.is_transactional),
    # Reading
    Rule("^ListOffsets .* #", "as Kafka 4: a partition that is named twice is told once", NOTHING),
    Rule("^(ListOffsets|Fetch)", _TOO_EARLY, when=conditions.is_of_unknown_isolation),
    Rule(
        "^Fetch v1[3-7]",
        "Kafka fails on topics without an id, which are unknown to Ottla",
        when=conditions.names_no_id,
        parts=True,
    ),
    Rule(
        "^Fetch v([789]|1[01])",
        "Kafka fails where the session has what only newer versions can say",
        when=conditions.is_too_old_for_kafka,
        parts=True,
    ),
    Rule(
        "^Fetch .*responses",
        "a fetch session tells the one who began it what is new; Kafka looks again where another one goes on with it",
        NOTHING,
        when=conditions.has_another_reader,
        parts=True,
    ),
    # Groups
    Rule(
        "^JoinGroup .*(protocol_name|metadata)$",
        "of protocols with as many votes Kafka takes the one that its hash map has first",
        when=conditions.is_tie,
        parts=True,
    ),
    Rule(
        "^JoinGroup .*(leader|members)$",
        "the next leader is the one that Kafka's hash map has first, by ids that are random",
        when=conditions.has_lost_its_leader,
        parts=True,
    ),
    # Between brokers
    Rule(
        "^(LeaderAndIsr|StopReplica)",
        "a partition that is named twice is done, and answered, twice; Kafka does the last and answers once",
        when=conditions.names_a_partition_twice,
        parts=True,
    ),
    Rule("^LeaderAndIsr .*error_code", "no topic has such a name, no partition such a number", 17, NONE, parts=True),
    Rule(
        "^LeaderAndIsr .*error_code",
        "Kafka takes in the name of another leader in an epoch that it knows, and goes on as before",
        *(11, NONE, conditions.names_another_leader),
        parts=True,
    ),
    Rule("^LeaderAndIsr", "Kafka fails on a new partition without an epoch", when=conditions.has_no_log, parts=True),
    Rule(
        "^AlterPartition",
        "in-sync replicas that are none are a bad request, which Kafka takes, or refuses as not eligible",
        when=conditions.asks_for_strangers,
        parts=True,
    ),
    Rule(
        "^(Produce|Fetch)",
        "what it leads Ottla serves at once, Kafka when it is also told who leads",
        when=conditions.leads_in_secret,
        parts=True,
    ),
    # Where Kafka fails
    Rule("^Produce .*error_code", _OLD_TIMES, NONE, BUG, conditions.cannot_compress, parts=True),
    Rule("^Produce .*base_offset", _OLD_TIMES, kafka=-1, when=conditions.cannot_compress),
    Rule("error_code$", _FAILS, ERROR, BUG),
    Rule("error_message$", _FAILS, TEXT, None),
    Rule("", _FAILS, when=conditions.kafka_fails, parts=True),
)

NOT_ASKED: Final = (
    Requests(
        "Produce",
        conditions.brings_a_fatal_batch,
        "Kafka fails on these batches, or never answers: `test_hostile_inputs` has them",
    ),
    Requests("Produce", conditions.brings_one_twice, "Kafka may append one batch and answer for another"),
    Requests("AlterConfigs", conditions.names_one_twice, "Kafka fails on it: `test_hostile_inputs` has it"),
    Requests("CreatePartitions", conditions.overflows, "Kafka exceeds an int and its memory, and ends"),
    Requests("OffsetFetch", conditions.names_no_group, "Kafka never answers"),
    Requests(
        "LeaderAndIsr",
        conditions.is_fatal_on_disk,
        "Kafka ends, as if its disk had failed: a directory's name is too long, or a line of a checkpoint is not read",
    ),
)

ENDING: Final = (
    Requests("Produce", conditions.is_of_oldest_producers, "Kafka may append what Ottla does not serve"),
    Requests("Fetch", conditions.has_unknown_isolation, "both fail, Kafka after it has changed the fetch session"),
    Requests(
        "LeaderAndIsr",
        conditions.leads_strangely,
        "a leader that is not there, nobody in sync, no epoch: Kafka remembers what Ottla refuses, or leads on",
    ),
    Requests(
        "UpdateMetadata", conditions.tells_otherwise, "Kafka's own controller tells its broker more often who is there"
    ),
)
"""Requests after which both are in other states, whatever they answer: a session ends with them."""

NOT_COMPARED: Final = (
    Unanswered(conditions.is_replaced, "Kafka never answers the first; Ottla answers REBALANCE_IN_PROGRESS"),
    Unanswered(conditions.has_left, "Kafka never answers the SyncGroup; Ottla answers UNKNOWN_MEMBER_ID"),
)


def rule(found: Difference, asked: Asked) -> Rule | None:
    """Return what allows a difference, None if nothing does."""
    return next((each for each in RULES if each.covers(found, asked)), None)


def is_not_asked(api: str, fields: Answer) -> bool:
    """Say whether a request is one that is not generated."""
    return any(each.api == api and each.are_so(fields) for each in NOT_ASKED)


def ends_session(sent: Sent) -> bool:
    """Say whether a request leaves the brokers in other states, whatever they answer."""
    return any(each.api == sent.api and each.are_so(sent.fields) for each in ENDING)


def is_not_compared(earlier: Sent, later: Sent) -> bool:
    """Say whether the answer to a request that waits is not compared once a later one was sent."""
    return any(each.is_so(earlier, later) for each in NOT_COMPARED)


def place(found: Difference) -> str:
    """Return where a difference is, whatever the version and the names of the session."""
    return re.sub(r"\bs\d+-", "", re.sub(r" v\d+", "", found.where))
