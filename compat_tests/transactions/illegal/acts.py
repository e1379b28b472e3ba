"""One request each, as scenarios have it. Values that differ between brokers are open until it is sent.

An act has the fields of all versions; `stage` leaves out those that a version does not have.
"""

from collections.abc import Sequence
from typing import Any, Final, NamedTuple

from compat_tests.differential.both import Answer
from compat_tests.differential.generated.controllers import BROKER_EPOCH, CONTROLLER_EPOCH, LATEST, ME, itself
from compat_tests.differential.generated.own import NO_ID, Own, Records

COMMIT, ABORT = True, False
NO_LEADER: Final = -1
MINUTE_MS: Final = 60_000
LONGEST_MS: Final = 900_000
LAST_EPOCH: Final = 32766
"""The highest epoch that a client gets."""
STRANGE, LAST = 1_000_000, 1_000_001
"""The numbers of a producer that no broker knows, and of the last one: see `stage.Values`."""

P, Q, NOBODY = (Own("transactional_id", each) for each in ("p", "q", "nobody"))
"""Transactional ids of a scenario. A text in the place of one of them is sent as it is."""
GROUP, MEMBER, GENERATION = Own("group", "g"), Own("member", "g", -1), Own("generation", "g")
"""The group of a scenario, its last member, and its generation."""
SETTLED: Final = ("", "Empty", "Ongoing", "CompleteCommit", "CompleteAbort")
"""All states but those in which markers are due; the empty one is that of an unknown id."""


class Who(NamedTuple):
    """A producer id and its epoch, as an InitProducerId of the scenario returned them: the last one, or by its number.

    Numbers begin with 0, and count only InitProducerId without an error. `epoch` is added to the epoch.
    """

    number: int = LAST
    epoch: int = 0

    @property
    def id(self) -> Own:
        """The producer id."""
        return Own("producer", "", self.number)

    @property
    def its_epoch(self) -> Own:
        """The epoch."""
        return Own("producer_epoch", f"{self.epoch:+}", self.number)


class Exactly(NamedTuple):
    """A producer id and an epoch that are sent as they are."""

    id: int
    its_epoch: int


Producer = Who | Exactly
SAME, FIRST = Who(), Who(0)
BEHIND, AHEAD = Who(epoch=-1), Who(epoch=1)
STRANGER = Who(STRANGE)
NO_ONE = Exactly(-1, -1)


class Place(NamedTuple):
    """Partitions of a topic."""

    topic: Any
    partitions: tuple[Any, ...] = (0,)


HERE = Place(Own("page"), (Own("fact", "partition"),))
"""A partition that no other run of a scenario uses."""
BESIDE = Place("beside")
"""A partition of all scenarios."""
MINE = Place(Own("topic", "mine"))
"""The topic of a scenario that creates it."""
NOWHERE = Place(Own("topic", "nowhere"))
OFFSETS, TRANSACTIONS = Place("__consumer_offsets"), Place("__transaction_state")


class Act(NamedTuple):
    """A request with the fields of all its versions from `lowest` to `highest`, over the connection `line`.

    With `until` a DescribeTransactions is first repeated until the state of its transactional ids is one of these.
    With `until_epoch` an InitProducerId is first repeated until it returns this epoch.
    """

    api: str
    fields: Answer
    lowest: int = 0
    highest: int = 99
    until: tuple[str, ...] = ()
    until_epoch: int = -1
    line: str = "a"


# Requests of producers


def init(
    who: Producer = NO_ONE, *, name: Any = P, timeout_ms: int = LONGEST_MS, lowest: int = 0, line: str = "a"
) -> Act:
    """InitProducerId. With a producer, only the versions that have it."""
    fields = {
        "transactionalId": name,
        "transactionTimeoutMs": timeout_ms,
        "producerId": who.id,
        "producerEpoch": who.its_epoch,
    }
    return Act("InitProducerId", fields, lowest if who == NO_ONE else 3, line=line)


def init_to_the_last_epoch() -> Act:
    """InitProducerId, once the epoch before the last one was returned."""
    return init()._replace(until_epoch=LAST_EPOCH - 1)


def add(*places: Place, who: Producer = SAME, name: Any = P) -> Act:
    """AddPartitionsToTxn of clients."""
    fields = {
        "v3AndBelowTransactionalId": name,
        "v3AndBelowProducerId": who.id,
        "v3AndBelowProducerEpoch": who.its_epoch,
        "v3AndBelowTopics": [{"name": each.topic, "partitions": list(each.partitions)} for each in places],
    }
    return Act("AddPartitionsToTxn", fields, highest=3)


def of_brokers(*transactions: Answer) -> Act:
    """AddPartitionsToTxn of brokers, with any number of transactions."""
    return Act("AddPartitionsToTxn", {"transactions": list(transactions)}, 4)


def entry(*places: Place, who: Producer = SAME, name: Any = P, verify: bool = True) -> Answer:
    """Return a transaction for `of_brokers`, to verify its partitions or to add them."""
    return {
        "transactionalId": name,
        "producerId": who.id,
        "producerEpoch": who.its_epoch,
        "verifyOnly": verify,
        "topics": [{"name": each.topic, "partitions": list(each.partitions)} for each in places],
    }


def add_offsets(who: Producer = SAME, *, name: Any = P, group: Any = GROUP) -> Act:
    """AddOffsetsToTxn."""
    fields = {"transactionalId": name, "producerId": who.id, "producerEpoch": who.its_epoch, "groupId": group}
    return Act("AddOffsetsToTxn", fields)


def commit_offsets(
    who: Producer = SAME,
    *,
    place: Place = HERE,
    name: Any = P,
    group: Any = GROUP,
    generation: Any = -1,
    member: Any = "",
    instance: str | None = None,
    offset: int = 7,
    metadata: str | None = "",
) -> Act:
    """TxnOffsetCommit. With a generation, a member or an instance, only the versions that have them."""
    partitions = [
        {
            "partitionIndex": each,
            "committedOffset": offset,
            "committedLeaderEpoch": -1,
            "committedMetadata": metadata,
        }
        for each in place.partitions
    ]
    fields = {
        "transactionalId": name,
        "groupId": group,
        "producerId": who.id,
        "producerEpoch": who.its_epoch,
        "generationId": generation,
        "memberId": member,
        "groupInstanceId": instance,
        "topics": [{"name": place.topic, "partitions": partitions}],
    }
    return Act("TxnOffsetCommit", fields, 0 if (generation, member, instance) == (-1, "", None) else 3)


def end(is_commit: bool, who: Producer = SAME, *, name: Any = P) -> Act:
    """EndTxn."""
    fields = {"transactionalId": name, "producerId": who.id, "producerEpoch": who.its_epoch, "committed": is_commit}
    return Act("EndTxn", fields, highest=4)


def batch(
    who: Who = SAME, sequence: int = 0, *, plain: bool = False, control: bool = False, size: int = 1, damage: str = ""
) -> Records:
    """Return a batch of a transaction, or a plain one of the same producer."""
    return Records(
        damage=damage,
        size=size,
        producer=who.number,
        epoch=who.epoch,
        sequence=sequence,
        transactional=not plain,
        control=control,
    )


PLAIN: Final = Records()
"""A batch of no producer."""


def produce(*data: tuple[Place, Records], name: Any = P, acks: int = -1, highest: int = 99) -> Act:
    """Produce, with a batch for each partition of some places."""
    topics = [
        {"name": place.topic, "partitionData": [{"index": each, "records": records} for each in place.partitions]}
        for place, records in data
    ]
    fields = {"transactionalId": name, "acks": acks, "timeoutMs": 30_000, "topicData": topics}
    return Act("Produce", fields, 3, highest)


def write(who: Who = SAME, sequence: int = 0, *, place: Place = HERE, **more: Any) -> Act:
    """Produce a batch of a transaction to one place."""
    return produce((place, batch(who, sequence, **more)))


# Requests of coordinators, administrators and consumers


def mark(*markers: Answer) -> Act:
    """WriteTxnMarkers."""
    return Act("WriteTxnMarkers", {"markers": list(markers)})


def marker(is_commit: bool, who: Producer = SAME, *places: Place, coordinator_epoch: int = 0) -> Answer:
    """Return a marker for `mark`."""
    return {
        "producerId": who.id,
        "producerEpoch": who.its_epoch,
        "transactionResult": is_commit,
        "topics": [{"name": each.topic, "partitionIndexes": list(each.partitions)} for each in places or (HERE,)],
        "coordinatorEpoch": coordinator_epoch,
    }


def describe(*names: Any) -> Act:
    """DescribeTransactions."""
    return Act("DescribeTransactions", {"transactionalIds": list(names or (P,))})


def settle(*states: str, name: Any = P) -> Act:
    """DescribeTransactions, once the transactional id is in one of these states, by default one of SETTLED."""
    return Act("DescribeTransactions", {"transactionalIds": [name]}, until=states or SETTLED)


def list_all(states: Sequence[str] = (), producers: Sequence[Producer] = (), duration_ms: int = -1) -> Act:
    """ListTransactions."""
    filters = {"stateFilters": list(states), "producerIdFilters": [each.id for each in producers]}
    return Act("ListTransactions", {**filters, "durationFilter": duration_ms})


def producers(*places: Place) -> Act:
    """DescribeProducers."""
    topics = [{"name": each.topic, "partitionIndexes": list(each.partitions)} for each in places or (HERE,)]
    return Act("DescribeProducers", {"topics": topics})


def read(isolation: int, place: Place = HERE) -> Act:
    """Fetch everything of a partition; isolation 1 is only what is committed."""
    asked = {
        "partition": place.partitions[0],
        "currentLeaderEpoch": -1,
        "fetchOffset": 0,
        "lastFetchedEpoch": -1,
        "logStartOffset": -1,
        "partitionMaxBytes": 1 << 20,
    }
    fields = {
        "clusterId": None,
        "replicaId": -1,
        "maxWaitMs": 0,
        "minBytes": 0,
        "maxBytes": 1 << 20,
        "isolationLevel": isolation,
        "sessionId": 0,
        "sessionEpoch": -1,
        "topics": [{"topic": place.topic, "partitions": [asked]}],
        "forgottenTopicsData": [],
        "rackId": "",
    }
    return Act("Fetch", fields, highest=12)


def log_end(isolation: int, place: Place = HERE) -> Act:
    """ListOffsets: the end of a partition; isolation 1 is the last stable offset."""
    asked = [{"partitionIndex": each, "currentLeaderEpoch": -1, "timestamp": -1} for each in place.partitions]
    topics = [{"name": place.topic, "partitions": asked}]
    return Act("ListOffsets", {"replicaId": -1, "isolationLevel": isolation, "topics": topics}, 2)


def fetch_offsets(*, is_stable: bool, group: Any = GROUP, place: Place = HERE) -> Act:
    """OffsetFetch, with or without `require_stable`."""
    topics = [{"name": place.topic, "partitionIndexes": list(place.partitions)}]
    asked = {"groupId": group, "memberId": None, "memberEpoch": -1, "topics": topics}
    return Act("OffsetFetch", {"groups": [asked], "requireStable": is_stable}, 8)


def find(*names: Any, kind: int = 1) -> Act:
    """FindCoordinator of transactional ids."""
    return Act("FindCoordinator", {"key": names[0], "keyType": kind, "coordinatorKeys": list(names)}, 1)


def join(*, member: Any = "", instance: str | None = None, line: str = "m") -> Act:
    """JoinGroup of a consumer. Without a member id it first gets one."""
    fields = {
        "groupId": GROUP,
        "sessionTimeoutMs": 600_000,
        "rebalanceTimeoutMs": 600_000,
        "memberId": member,
        "groupInstanceId": instance,
        "protocolType": "consumer",
        "protocols": [{"name": "range", "metadata": ""}],
        "reason": None,
    }
    return Act("JoinGroup", fields, 5, line=line)


def sync(*, member: Any = MEMBER, instance: str | None = None, line: str = "m") -> Act:
    """SyncGroup of the only member."""
    fields = {
        "groupId": GROUP,
        "generationId": GENERATION,
        "memberId": member,
        "groupInstanceId": instance,
        "protocolType": "consumer",
        "protocolName": "range",
        "assignments": [],
    }
    return Act("SyncGroup", fields, 5, line=line)


JOINED: Final = (join(), join(member=MEMBER), sync())
"""One member joins the group."""


# Topics


def create(place: Place = MINE, partitions: int = 1) -> Act:
    """CreateTopics."""
    topic = {
        "name": place.topic,
        "numPartitions": partitions,
        "replicationFactor": 1,
        "assignments": [],
        "configs": [],
    }
    # Responses of later versions have the configs, whose defaults differ.
    return Act("CreateTopics", {"topics": [topic], "timeoutMs": 30_000, "validateOnly": False}, highest=4)


def delete(place: Place = MINE) -> Act:
    """DeleteTopics."""
    fields = {"topics": [{"name": place.topic, "topicId": NO_ID}], "topicNames": [place.topic], "timeoutMs": 30_000}
    return Act("DeleteTopics", fields)


def lead(leader: int, place: Place = MINE) -> Act:
    """UpdateMetadata of the controller: a partition has this leader, NO_LEADER is none."""
    fact = Own("fact", CONTROLLER_EPOCH)
    state = {
        "partitionIndex": place.partitions[0],
        "controllerEpoch": fact,
        "leader": leader,
        "leaderEpoch": 0,
        "isr": [ME],
        "zkVersion": 0,
        "replicas": [ME],
        "offlineReplicas": [],
    }
    fields = {
        "controllerId": ME,
        "isKRaftController": False,
        "type": 0,
        "controllerEpoch": fact,
        "brokerEpoch": Own("fact", BROKER_EPOCH),
        "topicStates": [
            {"topicName": place.topic, "topicId": place.topic._replace(kind="topic_id"), "partitionStates": [state]}
        ],
        "liveBrokers": [itself(LATEST)],
    }
    return Act("UpdateMetadata", fields, LATEST)
