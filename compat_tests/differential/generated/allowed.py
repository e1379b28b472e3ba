"""The table of allowed differences between Ottla and Kafka 3.9.2, and of requests not sent or not compared.

Each entry has its reason. `advertised` has the APIs and versions that only one of them offers.
"""

import re
from collections.abc import Callable
from typing import Any, Final, NamedTuple

from compat_tests.differential.both import TEXT, Answer, Difference
from compat_tests.differential.generated import conditions
from compat_tests.differential.generated.conditions import BUG, NONE, Asked, Sent


class _Error:
    """Equals any error code but NONE and UNKNOWN_SERVER_ERROR."""

    def __eq__(self, other: object) -> bool:
        return isinstance(other, int) and other > NONE

    def __hash__(self) -> int:
        return 0

    def __repr__(self) -> str:
        return "an error"


ERROR: Final = _Error()
NOTHING: Final = "nothing"


def always(asked: Asked) -> bool:
    """Return True."""
    return True


class Rule(NamedTuple):
    """An allowed difference: the place (a regular expression), the reason, both values (`...` is any), a condition.

    After a difference that `parts` the brokers the session ends, because the brokers' states differ.
    """

    where: str
    reason: str
    ottla: Any = ...
    kafka: Any = ...
    when: Callable[[Asked], bool] = always
    parts: bool = False

    def covers(self, found: Difference, asked: Asked) -> bool:
        """Whether a found difference is this one."""
        values = ((self.ottla, found.ottla), (self.kafka, found.kafka))
        is_here = re.search(self.where, found.where) is not None
        return is_here and all(a is ... or a == b for a, b in values) and self.when(asked)


class Requests(NamedTuple):
    """Special requests of one API, and the reason."""

    api: str
    are_so: Callable[[Answer], bool]
    reason: str


class Unanswered(NamedTuple):
    """A waiting request whose answer is not compared after a later request, and the reason."""

    is_so: Callable[[Sent, Sent], bool]
    reason: str


_FAILS: Final = "Kafka fails with UNKNOWN_SERVER_ERROR; Ottla answers a specific error"
_EPOCHS: Final = "like Kafka 4: an append is of the open transaction only if its epoch is"
_WORDS: Final = "messages may have other words; most are those of Kafka 4.3"
_OLD_TIMES: Final = "Kafka cannot recompress records with a negative timestamp"
_TOO_EARLY: Final = "Ottla fails like Kafka, but before it reads the partitions"

RULES: Final = (
    Rule("error_message$", _WORDS, TEXT, TEXT),
    Rule("^DeleteTopics .*error_message$", _WORDS, TEXT, None),
    Rule("^CreatePartitions .*error_message$", _WORDS, None, TEXT),
    Rule("^DescribeConfigs .*documentation$", "Ottla's configs have their own documentation", TEXT, TEXT),
    Rule("^DescribeConfigs .*results.8 .*configs", "the loggers are those of Python"),
    Rule("^ApiVersions .*api_keys", "`advertised.ONLY_ONE_SIDE` has these differences"),
    Rule("^Produce v[012].", "like Kafka 4: advertised for librdkafka, but not served", parts=True),
    # Topics
    Rule(
        "^DescribeLogDirs .*(__consumer_offsets|__transaction_state).*partition_size",
        "Ottla puts the records of a coordinator into other batches",
    ),
    Rule(
        "^DescribeLogDirs .*partition_size",
        "each broker recompresses records in its own way",
        when=conditions.compresses_anew,
    ),
    Rule(
        "^CreateTopics",
        "like Kafka in KRaft mode: a topic that cannot work is not created",
        when=conditions.cannot_work,
        parts=True,
    ),
    Rule(
        "^(IncrementalAlter|Alter)Configs .*error_code",
        "like Kafka in KRaft mode: the topic's name is checked first",
        17,
    ),
    Rule("^DeleteTopics .*error_code", "like Kafka in KRaft mode: there is no authorization error", 42, 29),
    Rule("^DeleteTopics .* #.*error_code", "for a topic that is named twice Kafka returns the error once", 7, 0),
    # Transactions
    Rule("^Produce .*(error_code|closed)$", _EPOCHS, when=conditions.is_in_a_transaction, parts=True),
    Rule("^Produce .*(log_start|base)_offset$", _EPOCHS, when=conditions.is_in_a_transaction, parts=True),
    Rule("^TxnOffsetCommit .*error_code$", _EPOCHS, 47, parts=True),
    Rule(
        "^OffsetFetch .*error_code$",
        "a refused commit makes Kafka forget the pending offset of the next epoch of its producer",
        *(88, NONE, conditions.has_pending_offsets),
        parts=True,
    ),
    Rule(
        "^AddPartitionsToTxn v[45].*error_code$",
        "like Kafka 4: a broker that adds partitions needs transaction version 2",
        *(35, ..., conditions.adds_as_broker),
        parts=True,
    ),
    # Reading
    Rule("^ListOffsets .* #", "like Kafka 4: a partition that is named twice is returned once", NOTHING),
    Rule("^(ListOffsets|Fetch)", _TOO_EARLY, when=conditions.is_of_unknown_isolation),
    Rule(
        "^Fetch v1[3-7]",
        "Kafka fails on topics without an id; for Ottla they are unknown topics",
        when=conditions.names_no_id,
        parts=True,
    ),
    Rule(
        "^Fetch v([789]|1[01])",
        "Kafka fails if the session has a partition that only newer versions can express",
        when=conditions.is_too_old_for_kafka,
        parts=True,
    ),
    Rule(
        "^Fetch .*responses",
        "Ottla returns only changes in a fetch session; Kafka reads again if another replica continues the session",
        NOTHING,
        when=conditions.has_another_reader,
        parts=True,
    ),
    # Groups
    Rule(
        "^JoinGroup .*(protocol_name|metadata)$",
        "of protocols with equally many votes Kafka takes the first one of its hash map",
        when=conditions.is_tie,
        parts=True,
    ),
    Rule(
        "^JoinGroup .*(leader|members)$",
        "Kafka's next leader is the first one of its hash map, whose keys are random ids",
        when=conditions.has_lost_its_leader,
        parts=True,
    ),
    # Between brokers
    Rule(
        "^(LeaderAndIsr|StopReplica)",
        "Ottla applies and answers a partition that is named twice for each; Kafka applies the last one, answers once",
        when=conditions.names_a_partition_twice,
        parts=True,
    ),
    Rule("^LeaderAndIsr .*error_code", "Ottla refuses an invalid topic name or partition number", 17, NONE, parts=True),
    Rule(
        "^LeaderAndIsr .*error_code",
        "Kafka accepts another leader in an epoch that it knows already, without an effect",
        *(11, NONE, conditions.names_another_leader),
        parts=True,
    ),
    Rule("^LeaderAndIsr", "Kafka fails on a new partition without an epoch", when=conditions.has_no_log, parts=True),
    Rule(
        "^AlterPartition",
        "for Ottla in-sync replicas that are not replicas are a bad request; Kafka accepts or refuses them",
        when=conditions.asks_for_strangers,
        parts=True,
    ),
    Rule(
        "^(Produce|Fetch)",
        "Ottla serves a partition as soon as it leads; Kafka only after an UpdateMetadata with the leader",
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
        "Kafka fails on these batches, or never answers; `test_hostile_inputs` has them",
    ),
    Requests("Produce", conditions.brings_one_twice, "Kafka may append one batch and answer for another"),
    Requests("AlterConfigs", conditions.names_one_twice, "Kafka fails on it; `test_hostile_inputs` has it"),
    Requests("CreatePartitions", conditions.overflows, "an int overflows in Kafka, which ends without memory"),
    Requests("OffsetFetch", conditions.names_no_group, "Kafka never answers"),
    Requests("AddPartitionsToTxn", conditions.asks_for_no_transaction, "Kafka never answers"),
    Requests("WriteTxnMarkers", conditions.marks_twice, "Kafka never answers, if it has one of the partitions only"),
    Requests(
        "LeaderAndIsr",
        conditions.is_fatal_on_disk,
        "Kafka ends as after a disk error: a directory's name is too long, or a line of a checkpoint cannot be read",
    ),
)

ENDING: Final = (
    Requests(
        "Produce",
        conditions.is_of_oldest_producers,
        "Kafka may append the records, but Ottla does not serve this version",
    ),
    Requests("Fetch", conditions.has_unknown_isolation, "both fail, but Kafka changes the fetch session first"),
    Requests(
        "LeaderAndIsr",
        conditions.leads_strangely,
        "Kafka accepts an unknown leader, an empty in-sync set or no epoch, or remains the leader; Ottla refuses",
    ),
    Requests(
        "UpdateMetadata", conditions.tells_otherwise, "Kafka's controller sends the list of brokers again more often"
    ),
)
"""Requests that end a session, because they leave the brokers in different states even after equal answers."""

NOT_COMPARED: Final = (
    Unanswered(conditions.is_replaced, "Kafka never answers the first request; Ottla answers REBALANCE_IN_PROGRESS"),
    Unanswered(conditions.has_left, "Kafka never answers the SyncGroup; Ottla answers UNKNOWN_MEMBER_ID"),
)


def rule(found: Difference, asked: Asked) -> Rule | None:
    """Return the rule for a difference; None if there is none."""
    return next((each for each in RULES if each.covers(found, asked)), None)


def is_not_asked(api: str, fields: Answer) -> bool:
    """Whether a request must not be generated."""
    return any(each.api == api and each.are_so(fields) for each in NOT_ASKED)


def ends_session(sent: Sent) -> bool:
    """Whether a request leaves the brokers in different states."""
    return any(each.api == sent.api and each.are_so(sent.fields) for each in ENDING)


def is_not_compared(earlier: Sent, later: Sent) -> bool:
    """Whether the answer to a waiting request is not compared after a later one was sent."""
    return any(each.is_so(earlier, later) for each in NOT_COMPARED)


def place(found: Difference) -> str:
    """Return the place of a difference without the version and the names of the session."""
    return re.sub(r"\bs\d+-", "", re.sub(r" v\d+", "", found.where))
