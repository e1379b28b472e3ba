"""After which requests a difference is meant, which are not made, which end a session; `allowed` says why."""

from collections.abc import Iterator, Sequence
from typing import Any, Final, NamedTuple

from compat_tests.differential.both import CLOSED, Answer, PerSide
from compat_tests.differential.generated.own import NO_ID, Own, Records
from compat_tests.hostile.hostile import BATCHES, refused
from compat_tests.support.talking import SILENT

BUG, NONE, UNKNOWN_TOPIC, NOT_LEADER_OR_FOLLOWER, UNSUPPORTED_VERSION, INVALID_REQUEST = -1, 0, 3, 6, 35, 42
ME: Final = 1
TRANSACTIONS: Final = 1
ISOLATION_LEVELS: Final = (0, 1)
KINDS_OF_RESOURCES: Final = (2, 4, 8)
# Kafka subtracts the number of partitions that there are.
LOWEST_COUNT: Final = -1000


class Sent(NamedTuple):
    """A request as it was sent to one side."""

    api: str
    fields: Answer


class Asked(NamedTuple):
    """A request as it was sent to Kafka, with both answers, and what the session has asked before."""

    request: Answer
    answers: PerSide
    earlier: Sequence[Sent] = ()


def values_of(request: Any, *names: str) -> Iterator[Any]:
    """Yield all values of fields of these names, wherever they are in a request."""
    if isinstance(request, dict):
        for name, value in request.items():
            if name in names:
                yield value
            yield from values_of(value, *names)
    elif isinstance(request, list):
        for each in request:
            yield from values_of(each, *names)


# After which requests a difference is meant


def kafka_fails(asked: Asked) -> bool:
    """Say whether Kafka's whole answer is the error that means a bug, and Ottla's is not."""
    ottla, kafka = (answer.get("error_code") for answer in asked.answers)
    return bool(kafka == BUG and ottla != BUG)


def cannot_work(asked: Asked) -> bool:
    """Say whether a topic is to be created with an assignment that cannot work."""
    for topic in asked.request["topics"]:
        indexes = sorted(each["partitionIndex"] for each in topic["assignments"])
        if any(each["brokerIds"] != [ME] for each in topic["assignments"]) or indexes != list(range(len(indexes))):
            return True
    return False


def is_transactional(asked: Asked) -> bool:
    """Say whether a request names a transactional id, or looks for the coordinator of one."""
    request = asked.request
    return request.get("keyType") == TRANSACTIONS or request.get("transactionalId") is not None


def compresses_anew(asked: Asked) -> bool:
    """Say whether the session has given topics a codec of their own."""
    return "compression.type" in values_of([each.fields for each in asked.earlier], "name")


def cannot_compress(asked: Asked) -> bool:
    """Say whether Kafka fails on records that it is to compress anew."""
    return compresses_anew(asked) and BUG in values_of(asked.answers.kafka, "error_code")


def is_of_unknown_isolation(asked: Asked) -> bool:
    """Say whether a request asks for an isolation level that does not exist."""
    return has_unknown_isolation(asked.request)


def names_no_id(asked: Asked) -> bool:
    """Say whether a topic is named by the id that is none."""
    return NO_ID in values_of(asked.request, "topicId")


def is_too_old_for_kafka(asked: Asked) -> bool:
    """Say whether Kafka finds that it cannot answer in this version."""
    return bool(asked.answers.kafka.get("error_code") == UNSUPPORTED_VERSION)


def has_another_reader(asked: Asked) -> bool:
    """Say whether a replica asks where others have asked before, so that a fetch session may have had two readers."""
    fetches = [each.fields for each in asked.earlier if each.api == "Fetch"]
    return len(set(values_of([asked.request, *fetches], "replicaId"))) > 1


def is_tie(asked: Asked) -> bool:
    """Say whether members may have voted for two protocols equally often; only a leader is told of them."""
    ottla, kafka = asked.answers
    return ottla.get("protocol_name") != kafka.get("protocol_name") and len(kafka.get("members", ())) % 2 == 0


def has_lost_its_leader(asked: Asked) -> bool:
    """Say whether the leader of a group may have left before this generation."""
    has_joined = all(answer.get("error_code") == NONE for answer in asked.answers)
    return has_joined and any(each.api == "LeaveGroup" for each in asked.earlier)


def names_a_partition_twice(asked: Asked) -> bool:
    """Say whether a controller names a partition twice."""
    request = asked.request
    alone = [*request.get("ungroupedPartitionStates", ()), *request.get("ungroupedPartitions", ())]
    found = [(each["topicName"], each["partitionIndex"]) for each in alone]
    for topic in [*request.get("topicStates", ()), *request.get("topics", ())]:
        indexes = topic.get("partitionIndexes", [each["partitionIndex"] for each in topic.get("partitionStates", ())])
        found += [(topic.get("topicName", topic.get("name")), index) for index in indexes]
    return len(set(found)) < len(found)


def names_another_leader(asked: Asked) -> bool:
    """Say whether a controller gives a partition a strange role."""
    return leads_strangely(asked.request)


def has_no_log(asked: Asked) -> bool:
    """Say whether Kafka refuses all partitions that a controller names, because it has no log for one."""
    return bool(asked.answers.kafka.get("error_code") == NOT_LEADER_OR_FOLLOWER)


def asks_for_strangers(asked: Asked) -> bool:
    """Say whether Ottla refuses the in-sync replicas that a broker asks for."""
    return INVALID_REQUEST in values_of(asked.answers.ottla, "error_code")


def leads_in_secret(asked: Asked) -> bool:
    """Say whether Kafka does not know a partition that it may have been made to lead."""
    is_led = any(each.api == "LeaderAndIsr" for each in asked.earlier)
    kafka = asked.answers.kafka
    return is_led and (kafka == CLOSED or UNKNOWN_TOPIC in values_of(kafka, "error_code"))


# Requests that are not generated


_FATAL: Final = {name for name, (_, answer) in BATCHES.items() if answer in (refused(BUG), (*SILENT, 0))}


def brings_a_fatal_batch(request: Answer) -> bool:
    """Say whether a Produce brings a batch that Kafka fails on."""
    return any(isinstance(each, Records) and each.damage in _FATAL for each in values_of(request, "records"))


def brings_one_twice(request: Answer) -> bool:
    """Say whether a Produce names a partition twice, with a batch that is not sound among all."""
    data = [(topic["name"], each) for topic in request["topicData"] for each in topic["partitionData"]]
    places = [(repr(name), each["index"]) for name, each in data]
    return len(set(places)) < len(places) and not all(each["records"].is_sound for _, each in data)


def names_one_twice(request: Answer) -> bool:
    """Say whether configs of one resource are to be altered twice; all kinds that do not exist are one."""
    named = [
        (each["resourceType"] if each["resourceType"] in KINDS_OF_RESOURCES else 0, repr(each["resourceName"]))
        for each in request["resources"]
    ]
    return len(set(named)) < len(named)


def overflows(request: Answer) -> bool:
    """Say whether a topic is to have a number of partitions that is far below zero."""
    return any(count < LOWEST_COUNT for count in values_of(request["topics"], "count"))


def names_no_group(request: Answer) -> bool:
    """Say whether a request for the offsets of several groups names none."""
    return bool(request.get("groups") == [])


def is_fatal_on_disk(request: Answer) -> bool:
    """Say whether a topic's name is too long, or has a space."""
    names = [each for each in values_of(request, "topicName") if isinstance(each, Own)]
    return any(each.number or " " in each.name for each in names)


# Requests that both answer alike, and that leave them in other states


def has_unknown_isolation(request: Answer) -> bool:
    """Say whether an isolation level is asked for that does not exist."""
    return request.get("isolationLevel", 0) not in ISOLATION_LEVELS


def is_of_oldest_producers(request: Answer) -> bool:
    """Say whether a Produce is one of a version before 3, which has no transactional id."""
    return "transactionalId" not in request


def leads_strangely(request: Answer) -> bool:
    """Say whether a controller gives a partition another leader, one out of sync, or no epoch."""
    states = [each for found in values_of(request, "ungroupedPartitionStates", "partitionStates") for each in found]
    return any(
        each["leader"] != ME
        or ME not in {*each["isr"]} & {*each["replicas"]}
        or min(each["leaderEpoch"], each["partitionEpoch"]) < 0
        for each in states
    )


def tells_otherwise(request: Answer) -> bool:
    """Say whether a broker is told of others than itself, or of another controller."""
    known = [(each["id"], each.get("rack", "")) for each in request["liveBrokers"]]
    return known != [(ME, None)] or request["controllerId"] != ME


# Requests that wait, and are given up when a later one is sent


_NOBODY: Final = ("", "")


def is_replaced(earlier: Sent, later: Sent) -> bool:
    """Say whether a member asks the same again while it waits."""
    return earlier.api == later.api and _member(earlier.fields) == _member(later.fields) != _NOBODY


def has_left(earlier: Sent, later: Sent) -> bool:
    """Say whether a member that waits for its assignment is made to leave."""
    if (earlier.api, later.api) != ("SyncGroup", "LeaveGroup"):
        return False
    leaving = later.fields.get("members", [later.fields])
    return any(_member({**later.fields, **each}) == _member(earlier.fields) for each in leaving)


def _member(fields: Answer) -> tuple[str, str]:
    return (fields["groupId"], fields["memberId"]) if fields["memberId"] else _NOBODY
