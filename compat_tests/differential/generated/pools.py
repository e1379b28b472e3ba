"""Pools of values: for each field the values that work, and odd ones.

A pool is found by API and field ("Fetch.maxBytes"), by field, by the specification's entity type, or by type. A value
may be a function of the scene, which has the state of the session: see `generator.Scene`.
"""

import base64
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from compat_tests.differential.generated.own import NO_ID, UNKNOWN_ID, Own, Records
from compat_tests.hostile.hostile import BATCHES, GZIP, LZ4, NONE, NOW, SNAPPY, ZSTD

if TYPE_CHECKING:
    from compat_tests.differential.generated.generator import Scene

MAX_INT, MIN_INT, MAX_LONG, MIN_LONG, MIN_SHORT = 2**31 - 1, -(2**31), 2**63 - 1, -(2**63), -(2**15)
TRANSACTIONAL_IDS: Final = ("x0", "x1")
NAME_LENGTH: Final = 249
TOPIC, BROKER, LOGGER, METRICS = 2, 4, 8, 16
HOURS_MS: Final = 36_000_000
# Longer than the age of the records of `hostile.NOW`, because older records may be deleted at any time.
LONG_MS: Final = "9000000000000"


class Pool(NamedTuple):
    """Values that make sense, and odd ones."""

    good: Sequence[Any]
    odd: Sequence[Any] = ()


def text(value: bytes) -> str:
    """Return bytes in Kafka's JSON."""
    return base64.b64encode(value).decode()


def topic_id(scene: "Scene") -> Own:
    """Return the id of this element's topic."""
    return Own("topic_id", scene.topic)


def partition(scene: "Scene") -> int:
    """Return a partition of this element's topic."""
    return scene.random.randrange(max(1, scene.learned.partitions.get(scene.topic, 1)))


def another_partition(scene: "Scene") -> int:
    """Return the first partition number that does not exist."""
    return scene.learned.partitions.get(scene.topic, 1)


def topic_name(scene: "Scene") -> Own:
    """Return the name of this element's topic."""
    return Own("topic", scene.topic)


def group(scene: "Scene") -> Own:
    """Return the name of a group."""
    return Own("group", scene.group)


def member(scene: "Scene") -> Any:
    """Return a member of this group, or the empty id."""
    if scene.is_simple:
        return ""
    # The last members are the most likely to exist.
    number = scene.random.choice((-1, -1, -2, 0, 1))
    return Own("member", scene.group, number) if scene.learned.has_members(scene.group) else ""


def generation(scene: "Scene") -> Any:
    """Return the generation of this group."""
    return -1 if scene.is_simple else Own("generation", scene.group)


def subscription(scene: "Scene") -> Own:
    """Return a consumer's metadata in JoinGroup."""
    return Own("subscription", scene.topic)


def fetch_session(scene: "Scene") -> Any:
    """Return this connection's fetch session, or 0."""
    return Own("fetch_session", scene.line) if scene.goes_on else 0


def fetch_epoch(scene: "Scene") -> Any:
    """Return the next epoch of this connection's fetch session; without one -1, or 0 for a new one."""
    return Own("fetch_epoch", scene.line) if scene.goes_on else scene.random.choice((-1, -1, 0))


def transactional_id(scene: "Scene") -> Any:
    """Return the transactional id of this request's producer; without one a known or a new one."""
    name = scene.learned.transactional.get(scene.producer)
    return Own("transactional_id", name or scene.random.choice(TRANSACTIONAL_IDS))


def producer(scene: "Scene") -> Own:
    """Return the id of this request's producer."""
    return Own("producer", "", scene.producer)


def producer_epoch(scene: "Scene") -> Own:
    """Return the epoch of this request's producer."""
    return Own("producer_epoch", "", scene.producer)


def other_epoch(scene: "Scene") -> Any:
    """Return another epoch of this request's producer, or one that is none."""
    return scene.random.choice(
        (-1, Own("producer_epoch", "-1", scene.producer), Own("producer_epoch", "+1", scene.producer), MIN_SHORT)
    )


def records(scene: "Scene") -> Records:
    """Return a valid batch; with a producer it has the next sequence."""
    random = scene.random
    codec, count = random.choice((NONE, NONE, NONE, GZIP, SNAPPY, LZ4, ZSTD)), random.choice((1, 1, 2, 3))
    start = NOW + 1000 * random.randrange(10)
    if not scene.learned.producers or random.random() < 0.6:
        return Records(size=count, codec=codec, start_ms=start)
    number = scene.producer if random.random() < 0.9 else random.randrange(len(scene.learned.producers))
    place = (number, scene.topic)
    sequence = scene.counters.get(place, 0)
    if random.random() < 0.9:
        scene.counters[place] = sequence + count
    is_in_transaction = number in scene.learned.transactional and random.random() < 0.9
    return Records(
        size=count, codec=codec, start_ms=start, producer=number, sequence=sequence, transactional=is_in_transaction
    )


def odd_records(scene: "Scene") -> Records:
    """Return a damaged batch, or one with another time, epoch or sequence."""
    random = scene.random
    if random.random() < 0.6:
        return Records(damage=random.choice(DAMAGES))
    producer = random.choice((-1, 0, 1))
    # A plain batch of a higher epoch makes Kafka refuse the markers of the producer's transaction for ever.
    is_transactional = producer in scene.learned.transactional
    return Records(
        size=random.choice((1, 2)),
        start_ms=random.choice((NOW, -1, 0, 2**42)),
        producer=producer,
        epoch=random.choice((0, -1, -2) if is_transactional else (0, 1, -1, -2)),
        transactional=False,
        control=random.random() < 0.1,
        sequence=random.choice((0, 1, 5, MAX_INT, -1)),
        key=random.choice((b"k", None)),
    )


def member_for_assignment(scene: "Scene") -> Own:
    """Return a member of this group, for the leader's assignment."""
    return Own("member", scene.group, scene.random.choice((-1, -2, 0, 1)))


DAMAGES: Final = tuple(BATCHES)
_INT: Final = {"int8": 7, "int16": 15, "int32": 31, "int64": 63}
_SOME_OFFSETS: Final = tuple(range(6))
_BYTES: Final = ("", text(b"some"), text(bytes(300)))

BY_TYPE: Final[dict[str, Pool]] = {
    "bool": Pool((False, True)),
    "string": Pool(("", "some", "é"), ("a" * 300,)),
    "bytes": Pool(_BYTES),
    "uuid": Pool((NO_ID, UNKNOWN_ID)),
    **{name: Pool((0, 1), (-1, 7, 2**bits - 1, -(2**bits))) for name, bits in _INT.items()},
}

BY_ENTITY: Final[dict[str, Pool]] = {
    "topicName": Pool((topic_name,), ("", ".", "..", "a b", "é", "a/b", Own("topic", "long", NAME_LENGTH + 1))),
    "groupId": Pool((group,), ("", "é", " ", Own("group", "long", 300))),
    "transactionalId": Pool((transactional_id,), ("", "é", Own("transactional_id", "new"))),
    "brokerId": Pool((1,), (-1, 9, 1, MAX_INT, MIN_INT)),
}

_PARTITION: Final = Pool((partition,), (another_partition, -1, MAX_INT, MIN_INT))
_TIMEOUT: Final = Pool((30_000,), (0, -1, MIN_INT, MAX_INT))
_EPOCH: Final = Pool((-1, -1, 0), (1, 9, -2, MAX_INT, MIN_INT))
_BYTES_AT_MOST: Final = Pool((1 << 20, MAX_INT), (0, -1, 1, 100, MIN_INT))

BY_NAME: Final[dict[str, Pool]] = {
    "topicId": Pool((topic_id,), (NO_ID, UNKNOWN_ID)),
    "partition": _PARTITION,
    "partitions": _PARTITION,
    "index": _PARTITION,
    "partitionIndex": _PARTITION,
    "partitionIndexes": _PARTITION,
    "timeoutMs": _TIMEOUT,
    "validateOnly": Pool((False, False, False, True)),
    # Produce
    "acks": Pool((-1, -1, 1), (0, 2, -2, 2**15 - 1)),
    "records": Pool((records,), (odd_records,)),
    # Fetch
    "replicaId": Pool((-1,), (-2, 1, 9, -7, MAX_INT)),
    "replicaEpoch": Pool((-1,), (0, MAX_LONG)),
    "replicaDirectoryId": Pool((NO_ID,), (UNKNOWN_ID,)),
    "maxWaitMs": Pool((0, 0, 1), (-1, MIN_INT, 10)),
    "minBytes": Pool((0, 1), (-1, 1000, MAX_INT)),
    "maxBytes": _BYTES_AT_MOST,
    "partitionMaxBytes": _BYTES_AT_MOST,
    "isolationLevel": Pool((0, 1), (7, -1)),
    "sessionId": Pool((fetch_session,), (4711, -3, Own("fetch_session", "b"))),
    "sessionEpoch": Pool((fetch_epoch,), (0, 7, -7, MAX_INT)),
    "fetchOffset": Pool(_SOME_OFFSETS, (-1, 7, 2**60, MIN_LONG)),
    "currentLeaderEpoch": _EPOCH,
    "lastFetchedEpoch": Pool((-1, -1, 0), (9, -9)),
    "logStartOffset": Pool((-1,), (0, -7, 5)),
    "rackId": Pool(("", "rack")),
    "clusterId": Pool((None,), ("some",)),
    # Offsets
    "timestamp": Pool((-1, -2, -3, NOW, NOW + 1000, NOW + 500), (-4, -5, -6, 0, MAX_LONG, MIN_LONG)),
    "leaderEpoch": Pool((0, 0, 1), (-1, 9, -9)),
    "offset": Pool((*_SOME_OFFSETS, -1), (100, -2, MAX_LONG)),
    "committedOffset": Pool(_SOME_OFFSETS, (-1, -2, MAX_LONG)),
    "committedLeaderEpoch": Pool((-1, 0), (-5, 9)),
    "committedMetadata": Pool(("", "said"), ("x" * 4096, "x" * 4097)),
    "retentionTimeMs": Pool((-1,), (HOURS_MS,)),
    "requireStable": Pool((False, True)),
    # Groups
    "sessionTimeoutMs": Pool((600_000,), (0, -1, 5999, 1_800_001, MAX_INT)),
    # No short timeouts, because they expire at different times on the two sides.
    "rebalanceTimeoutMs": Pool((600_000,), (MAX_INT,)),
    "memberId": Pool((member,), ("nobody", "", member)),
    "SyncGroup.assignments.memberId": Pool((member_for_assignment,), ("nobody",)),
    "groupInstanceId": Pool((None, None, None, None, None, "i0", "i1"), ("", "i2")),
    "generationId": Pool((generation,), (-1, 0, 1, 99)),
    "generationIdOrMemberEpoch": Pool((generation,), (-1, 0, 1, 99)),
    "memberEpoch": Pool((-1,), (0, 1)),
    "protocolType": Pool(("consumer",), ("", "other")),
    "protocolName": Pool(("range", None), ("other",)),
    "JoinGroup.protocols.name": Pool(("range", "range", "roundrobin"), ("", "other")),
    "metadata": Pool((subscription,), _BYTES),
    "assignment": Pool(_BYTES),
    "reason": Pool((None, "why"), ("x" * 300,)),
    "statesFilter": Pool(("Stable", "Empty", "stable", "Dead"), ("none", "")),
    "typesFilter": Pool(("classic", "Consumer", "CLASSIC"), ("none", "")),
    "keyType": Pool((0,), (1, 2, 7, -1)),
    "key": Pool((group,), ("", "some")),
    "coordinatorKeys": Pool((group,), ("", "some")),
    # The cluster
    "clientSoftwareName": Pool(("some", "a.b-c"), ("", "-", "a b", "é")),
    "clientSoftwareVersion": Pool(("1", "4.0-x"), ("", " ", "é")),
    "endpointType": Pool((1,), (2, 7, -1, 0)),
    "electionType": Pool((0, 1), (7, -1)),
    # Transactions
    "transactionTimeoutMs": Pool((600_000,), (0, -1, MAX_INT)),
    "InitProducerId.transactionalId": Pool((None,), ("",)),
    "InitProducerId.producerId": Pool((-1, producer), (4711, -2, MAX_LONG)),
    "InitProducerId.producerEpoch": Pool((-1, producer_epoch), (0, 5, -2)),
    "Produce.transactionalId": Pool((None,), (transactional_id, "")),
    "v3AndBelowTransactionalId": Pool((transactional_id,), ("", "é", Own("transactional_id", "new"))),
    "v3AndBelowProducerId": Pool((producer,), (4711, -1, Own("producer"))),
    "v3AndBelowProducerEpoch": Pool((producer_epoch,), (other_epoch,)),
    "transactionalIds": Pool((transactional_id,), ("", Own("transactional_id", "new"))),
    "producerId": Pool((producer,), (4711, -1, Own("producer"))),
    "producerEpoch": Pool((producer_epoch,), (other_epoch,)),
    # Kafka refuses the coordinator's own marker for ever after one with a higher epoch of either kind.
    "WriteTxnMarkers.producerEpoch": Pool((producer_epoch,), (Own("producer_epoch", "-1"), -3)),
    "coordinatorEpoch": Pool((0,), (-1,)),
    "verifyOnly": Pool((True,) * 9 + (False,)),
    "producerIdFilters": Pool((producer,), (4711, -1)),
    "stateFilters": Pool(("Ongoing", "Empty", "CompleteCommit", "CompleteAbort"), ("none", "", "ongoing", "Dead")),
    # No short ones, because the brokers' clocks differ.
    "durationFilter": Pool((-1, HOURS_MS), (-5, MAX_LONG)),
    "path": Pool((Own("log_dir"),), ("/nowhere", "", "relative")),
    "replicas": Pool((1,), (9, -1)),
    "brokerIds": Pool((1,), (9, -1)),
}

Configs = Sequence[tuple[str, Sequence[str], Sequence[str | None]]]
TOPIC_CONFIGS: Final[Configs] = (
    ("retention.ms", (LONG_MS, "-1"), ("soon", "-2", None, "", "9" * 40)),
    ("cleanup.policy", ("delete", "compact", "compact,delete"), ("burn", "", None)),
    ("compression.type", ("producer", "gzip", "uncompressed", "zstd", "lz4", "snappy"), ("zip", "")),
    ("max.message.bytes", ("1048588", "90"), ("-1", "x", "1.5")),
    ("message.timestamp.type", ("CreateTime", "LogAppendTime"), ("Never", "")),
    ("message.timestamp.before.max.ms", ("1000", "9223372036854775807"), ("-1",)),
    ("message.timestamp.after.max.ms", ("1000", "9223372036854775807"), ("-1", "x")),
    ("min.insync.replicas", ("1", "2"), ("0", "x")),
    ("segment.bytes", ("1048576", "14"), ("1", "13")),
    ("min.cleanable.dirty.ratio", ("0.5", "1"), ("1.5", "-0.1", "x")),
    ("flush.messages", ("1", "1000"), ("0", "x")),
    ("index.interval.bytes", ("4096",), ("-1",)),
    ("preallocate", ("false", "true"), ("perhaps",)),
    ("no.such.config", (), ("1", None)),
    ("", (), ("1",)),
)
BROKER_CONFIGS: Final[Configs] = (
    ("message.max.bytes", ("1048588", "2000000"), ("-1", "x")),
    ("log.retention.ms", (LONG_MS, "-1"), ("soon",)),
    ("max.connections", ("100000",), ("-1", "x")),
    ("compression.type", ("producer",), ("zip",)),
    ("background.threads", (), ("0", "x")),
    ("broker.id", (), ("1", "2")),
    ("log.dirs", (), ("/nowhere",)),
    ("no.such.config", ("1",), ("x",)),
)
LOGGER_CONFIGS: Final[Configs] = (
    ("kafka.cluster.Partition", ("ERROR",), ("LOUD", "")),
    ("root", (), ("LOUD",)),
    ("no.such.logger", (), ("INFO",)),
)
