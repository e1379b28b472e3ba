"""Conditions of requests: with an allowed difference, not generated, or ending a session. `allowed` has the reasons."""

from collections.abc import Iterator, Sequence
from typing import Any, Final, NamedTuple

from compat_tests.differential.both import CLOSED, Answer, PerSide
from compat_tests.differential.generated.own import NO_ID, Own, Records
from compat_tests.hostile.hostile import BATCHES, refused
from compat_tests.support.talking import SILENT

BUG, NONE, UNKNOWN_TOPIC, NOT_LEADER_OR_FOLLOWER, UNSUPPORTED_VERSION, INVALID_REQUEST = -1, 0, 3, 6, 35, 42
INVALID_PRODUCER_EPOCH: Final = 47
ME: Final = 1
ISOLATION_LEVELS: Final = (0, 1)
KINDS_OF_RESOURCES: Final = (2, 4, 8)
# Kafka subtracts the current number of partitions.
LOWEST_COUNT: Final = -1000


class Sent(NamedTuple):
    """A request as it was sent to one side."""

    api: str
    fields: Answer


class Asked(NamedTuple):
    """A request as it was sent to Kafka, with both answers, and the earlier requests of the session."""

    request: Answer
    answers: PerSide
    earlier: Sequence[Sent] = ()


def values_of(request: Any, *names: str) -> Iterator[Any]:
    """Yield all values of fields of these names, at any depth of a request."""
    if isinstance(request, dict):
        for name, value in request.items():
            if name in names:
                yield value
            yield from values_of(value, *names)
    elif isinstance(request, list):
        for each in request:
            yield from values_of(each, *names)


# Requests with an allowed difference


def kafka_fails(asked: Asked) -> bool:
    """Whether Kafka's whole answer is UNKNOWN_SERVER_ERROR, but Ottla's is not."""
    ottla, kafka = (answer.get("error_code") for answer in asked.answers)
    return bool(kafka == BUG and ottla != BUG)


def cannot_work(asked: Asked) -> bool:
    """Whether a topic would be created with an assignment that cannot work."""
    for topic in asked.request["topics"]:
        indexes = sorted(each["partitionIndex"] for each in topic["assignments"])
        if any(each["brokerIds"] != [ME] for each in topic["assignments"]) or indexes != list(range(len(indexes))):
            return True
    return False


def is_in_a_transaction(asked: Asked) -> bool:
    """Whether a Produce has a transactional id, and only Kafka accepts it, or each answers another error."""
    ottla = [*values_of(asked.answers.ottla, "error_code"), *values_of(asked.answers.ottla, "closed")]
    return asked.request.get("transactionalId") is not None and bool({INVALID_PRODUCER_EPOCH, True} & {*ottla})


def has_pending_offsets(asked: Asked) -> bool:
    """Whether the session has committed offsets in a transaction."""
    return any(each.api == "TxnOffsetCommit" for each in asked.earlier)


def adds_as_broker(asked: Asked) -> bool:
    """Whether an AddPartitionsToTxn of a broker adds partitions."""
    return False in values_of(asked.request, "verifyOnly")


def compresses_anew(asked: Asked) -> bool:
    """Whether the session has set a codec of topics."""
    return "compression.type" in values_of([each.fields for each in asked.earlier], "name")


def cannot_compress(asked: Asked) -> bool:
    """Whether Kafka fails to recompress the records."""
    return compresses_anew(asked) and BUG in values_of(asked.answers.kafka, "error_code")


def is_of_unknown_isolation(asked: Asked) -> bool:
    """Whether a request has an isolation level that does not exist."""
    return has_unknown_isolation(asked.request)


def names_no_id(asked: Asked) -> bool:
    """Whether a request has the zero id of a topic."""
    return NO_ID in values_of(asked.request, "topicId")


def is_too_old_for_kafka(asked: Asked) -> bool:
    """Whether Kafka finds that it cannot answer in this version."""
    return bool(asked.answers.kafka.get("error_code") == UNSUPPORTED_VERSION)


def has_another_reader(asked: Asked) -> bool:
    """Whether other replicas fetched in this session, so that a fetch session may have had two readers."""
    fetches = [each.fields for each in asked.earlier if each.api == "Fetch"]
    return len(set(values_of([asked.request, *fetches], "replicaId"))) > 1


def is_tie(asked: Asked) -> bool:
    """Whether two protocols may have equally many votes of members; only a leader's response has the members."""
    ottla, kafka = asked.answers
    return ottla.get("protocol_name") != kafka.get("protocol_name") and len(kafka.get("members", ())) % 2 == 0


def has_lost_its_leader(asked: Asked) -> bool:
    """Whether the leader of a group may have left before this generation."""
    has_joined = all(answer.get("error_code") == NONE for answer in asked.answers)
    return has_joined and any(each.api == "LeaveGroup" for each in asked.earlier)


def names_a_partition_twice(asked: Asked) -> bool:
    """Whether a controller's request names a partition twice."""
    request = asked.request
    alone = [*request.get("ungroupedPartitionStates", ()), *request.get("ungroupedPartitions", ())]
    found = [(each["topicName"], each["partitionIndex"]) for each in alone]
    for topic in [*request.get("topicStates", ()), *request.get("topics", ())]:
        indexes = topic.get("partitionIndexes", [each["partitionIndex"] for each in topic.get("partitionStates", ())])
        found += [(topic.get("topicName", topic.get("name")), index) for index in indexes]
    return len(set(found)) < len(found)


def names_another_leader(asked: Asked) -> bool:
    """Whether a controller's request has another leader of a partition."""
    return leads_strangely(asked.request)


def has_no_log(asked: Asked) -> bool:
    """Whether Kafka refuses all partitions of a controller's request, because it has no log for one."""
    return bool(asked.answers.kafka.get("error_code") == NOT_LEADER_OR_FOLLOWER)


def asks_for_strangers(asked: Asked) -> bool:
    """Whether Ottla refuses the in-sync replicas of a broker's request."""
    return INVALID_REQUEST in values_of(asked.answers.ottla, "error_code")


def leads_in_secret(asked: Asked) -> bool:
    """Whether Kafka does not know a partition that it may lead."""
    is_led = any(each.api == "LeaderAndIsr" for each in asked.earlier)
    kafka = asked.answers.kafka
    return is_led and (kafka == CLOSED or UNKNOWN_TOPIC in values_of(kafka, "error_code"))


# Requests that are not generated


_FATAL: Final = {name for name, (_, answer) in BATCHES.items() if answer in (refused(BUG), (*SILENT, 0))}


def brings_a_fatal_batch(request: Answer) -> bool:
    """Whether a Produce has a batch on which Kafka fails."""
    return any(isinstance(each, Records) and each.damage in _FATAL for each in values_of(request, "records"))


def brings_one_twice(request: Answer) -> bool:
    """Whether a Produce names a partition twice, and has an invalid batch."""
    data = [(topic["name"], each) for topic in request["topicData"] for each in topic["partitionData"]]
    places = [(repr(name), each["index"]) for name, each in data]
    return len(set(places)) < len(places) and not all(each["records"].is_sound for _, each in data)


def names_one_twice(request: Answer) -> bool:
    """Whether configs of one resource are altered twice; all unknown types count as one."""
    named = [
        (each["resourceType"] if each["resourceType"] in KINDS_OF_RESOURCES else 0, repr(each["resourceName"]))
        for each in request["resources"]
    ]
    return len(set(named)) < len(named)


def overflows(request: Answer) -> bool:
    """Whether a topic would have a number of partitions far below zero."""
    return any(count < LOWEST_COUNT for count in values_of(request["topics"], "count"))


def asks_for_no_transaction(request: Answer) -> bool:
    """Whether an AddPartitionsToTxn of a broker has no transaction."""
    return bool(request.get("transactions") == [])


def marks_twice(request: Answer) -> bool:
    """Whether there are several markers, or one for a partition twice."""
    topics = [each for marker in request["markers"] for each in marker["topics"]]
    places = [(repr(each["name"]), index) for each in topics for index in each["partitionIndexes"]]
    return len(request["markers"]) > 1 or len(set(places)) < len(places)


def names_no_group(request: Answer) -> bool:
    """Whether a request for the offsets of several groups names none."""
    return bool(request.get("groups") == [])


def is_fatal_on_disk(request: Answer) -> bool:
    """Whether a topic's name is too long, or has a space."""
    names = [each for each in values_of(request, "topicName") if isinstance(each, Own)]
    return any(each.number or " " in each.name for each in names)


# Requests with equal answers that leave the brokers in different states


def has_unknown_isolation(request: Answer) -> bool:
    """Whether a request has an isolation level that does not exist."""
    return request.get("isolationLevel", 0) not in ISOLATION_LEVELS


def is_of_oldest_producers(request: Answer) -> bool:
    """Whether a Produce has a version before 3, which has no transactional id."""
    return "transactionalId" not in request


def leads_strangely(request: Answer) -> bool:
    """Whether a controller's request has another leader, a leader out of sync, or no epoch."""
    states = [each for found in values_of(request, "ungroupedPartitionStates", "partitionStates") for each in found]
    return any(
        each["leader"] != ME
        or ME not in {*each["isr"]} & {*each["replicas"]}
        or min(each["leaderEpoch"], each["partitionEpoch"]) < 0
        for each in states
    )


def tells_otherwise(request: Answer) -> bool:
    """Whether a request names other brokers than itself, or another controller."""
    known = [(each["id"], each.get("rack", "")) for each in request["liveBrokers"]]
    return known != [(ME, None)] or request["controllerId"] != ME


# Waiting requests that are given up after a later one


_NOBODY: Final = ("", "")


def is_replaced(earlier: Sent, later: Sent) -> bool:
    """Whether a member sends the same request again while it waits."""
    return earlier.api == later.api and _member(earlier.fields) == _member(later.fields) != _NOBODY


def has_left(earlier: Sent, later: Sent) -> bool:
    """Whether a member is removed while it waits for its assignment."""
    if (earlier.api, later.api) != ("SyncGroup", "LeaveGroup"):
        return False
    leaving = later.fields.get("members", [later.fields])
    return any(_member({**later.fields, **each}) == _member(earlier.fields) for each in leaving)


def _member(fields: Answer) -> tuple[str, str]:
    return (fields["groupId"], fields["memberId"]) if fields["memberId"] else _NOBODY
