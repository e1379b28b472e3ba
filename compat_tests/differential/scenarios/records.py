"""Scenarios of Produce, Fetch with its sessions, ListOffsets, DeleteRecords, OffsetForLeaderEpoch, InitProducerId."""

from typing import Any

from compat_tests.differential.both import NOBODY, NOON, Both, PerSide, batch, of_each, patched
from compat_tests.differential.scenarios import UNKNOWN_ID, scenario


def produced(name: str, records: Any, partition: int = 0, **fields: Any) -> dict[str, Any]:
    """Return the fields of Produce."""
    data = {"name": name, "partition_data": [{"index": partition, "records": records}]}
    return {"acks": -1, "timeout_ms": 10000, "topic_data": [data], **fields}


@scenario("Produce")
def produce(both: Both) -> None:
    topic = both.topic(partitions=2)
    both.ask("Produce", **produced(topic, batch()))
    both.ask("Produce", **produced(topic, batch(), acks=1))
    both.ask("Produce", **produced(topic, batch(codec=1), partition=1))
    both.ask("Produce", **produced(topic, batch(), acks=0))
    both.ask("ListOffsets", replica_id=-1, topics=[offsets_at(topic, -1)], settle=True)
    both.ask("Produce", acks=-1, timeout_ms=1000, topic_data=[])


@scenario("Produce")
def produce_what_is_refused(both: Both) -> None:
    topic, compacted = both.topic(), both.topic(cleanup_policy="compact")
    good = batch()
    for records in (
        patched(good, 17, b"\0\0\0\0", checksum=False),
        patched(good, 16, b"\x03", checksum=False),
        patched(good, 8, b"\0\0\0\0", checksum=False),
        patched(good, 8, b"\xff\xff\xff\xff", checksum=False),
        patched(good, 57, b"\0\0\0\x09"),
        patched(good, 23, b"\0\0\0\x09"),
        patched(good, 21, b"\0\x20"),
        patched(good, 21, b"\0\x10"),
        patched(good, 61, b"\x7f"),
        good + good,
        good[:-1],
        good[:40],
        b"",
    ):
        both.ask("Produce", **produced(topic, records))
    for acks in (2, -2):
        both.ask("Produce", **produced(topic, good, acks=acks))
    both.ask("Produce", **produced(topic, good, partition=7))
    both.ask("Produce", **produced(topic, good, partition=-1))
    both.ask("Produce", **produced("nobody-made-this", good))
    both.ask("Produce", **produced("../etc", good))
    both.ask("Produce", **produced(compacted, good))
    small = both.topic(max_message_bytes="100")
    both.ask("Produce", **produced(small, good))
    both.ask("ListOffsets", replica_id=-1, topics=[offsets_at(topic, -1)])


@scenario("Produce")
def produce_idempotently(both: Both) -> None:
    topic = both.topic()
    ids = of_each(both.ask("InitProducerId", settle=True, transactional_id=None), lambda a: a["producer_id"])
    for epoch, sequence in ((0, 0), (0, 0), (0, 3), (0, 9), (0, 0), (1, 5), (1, 0), (0, 3)):
        records = batch(producer=ids, epoch=epoch, sequence=sequence)
        both.ask("Produce", **produced(topic, records))
    both.ask("Produce", **produced(both.topic(), batch(producer=PerSide(777777, 777777), sequence=5)))


def fetched(name: Any, offset: int, partition: int = 0, epoch: int = -1, **fields: Any) -> dict[str, Any]:
    """Return the fields of a Fetch of one partition without waiting."""
    topic = name if isinstance(name, dict) else {"topic": name}
    one = {
        "partition": partition,
        "fetch_offset": offset,
        "partition_max_bytes": 1 << 20,
        "current_leader_epoch": epoch,
    }
    every = {"replica_id": -1, "max_wait_ms": 0, "min_bytes": 0, "max_bytes": 1 << 20, "session_epoch": -1}
    return {**every, "topics": [{**topic, "partitions": [one]}], **fields}


def named(both: Both, topic: str) -> dict[str, Any]:
    """Return a topic with its name and its id, for all versions of Fetch."""
    return {"topic": topic, "topic_id": both.topic_id(topic)}


@scenario("Fetch")
def fetch_with_a_negative_epoch(both: Both) -> None:
    topic = both.topic()
    both.fill(topic)
    both.ask("Fetch", **fetched(named(both, topic), 0, epoch=-2))


@scenario("Fetch")
def fetch(both: Both) -> None:
    topic = both.topic(partitions=2)
    both.fill(topic)
    both.fill(topic, start_ms=NOON + 60_000)
    here = named(both, topic)
    for offset in (0, 1, 3, 5, 6, 7, -1, -2, 1 << 40):
        both.ask("Fetch", **fetched(here, offset))
    for partition in (1, 2, -1):
        both.ask("Fetch", **fetched(here, 0, partition=partition))
    for epoch in (0, 1, 99):
        both.ask("Fetch", **fetched(here, 0, epoch=epoch))
    both.ask("Fetch", **fetched(here, 0, isolation_level=1))
    both.ask("Fetch", **fetched(here, 0, max_bytes=1))
    both.ask("Fetch", **fetched({"topic": "nobody-made-this", "topic_id": UNKNOWN_ID}, 0))
    both.ask("Fetch", **fetched({"topic": "", "topic_id": NOBODY}, 0))
    both.ask("Fetch", **{**fetched(here, 0), "topics": []})


@scenario("Fetch")
def fetch_sessions(both: Both) -> None:
    topic = both.topic(partitions=2)
    here = named(both, topic)
    both.fill(topic)
    first = both.ask("Fetch", **fetched(here, 0, session_epoch=0))
    session = of_each(first, lambda a: a.get("session_id", 0))
    if both.version < 7:
        return
    for epoch in (1, 2):
        both.ask("Fetch", **fetched(here, 3, session_id=session, session_epoch=epoch))
    both.ask("Fetch", **{**fetched(here, 0, session_id=session, session_epoch=3), "topics": []})
    both.fill(topic, start_ms=NOON + 60_000)
    both.ask("Fetch", **{**fetched(here, 0, session_id=session, session_epoch=4), "topics": []})
    both.ask("Fetch", **fetched(here, 0, partition=1, session_id=session, session_epoch=5))
    forgotten = {**here, "partitions": [0]}
    asked = {
        **fetched(here, 0, session_id=session, session_epoch=6),
        "topics": [],
        "forgotten_topics_data": [forgotten],
    }
    both.ask("Fetch", **asked)
    both.ask("Fetch", **fetched(here, 0, session_id=session, session_epoch=77))
    both.ask("Fetch", **fetched(here, 0, session_id=12345, session_epoch=1))
    both.ask("Fetch", **fetched(here, 0, session_id=session, session_epoch=-1))
    both.ask("Fetch", **fetched(here, 0, session_id=session, session_epoch=7))


def offsets_at(topic: str, timestamp: int, partition: int = 0, epoch: int = -1) -> dict[str, Any]:
    """Return a topic for ListOffsets."""
    one = {"partition_index": partition, "timestamp": timestamp, "current_leader_epoch": epoch}
    return {"name": topic, "partitions": [one]}


@scenario("ListOffsets")
def list_offsets(both: Both) -> None:
    topic, empty = both.topic(), both.topic()
    both.fill(topic)
    both.fill(topic, start_ms=NOON + 60_000)
    times = (-1, -2, -3, -4, -5, -6, -7, 0, NOON, NOON + 1, NOON + 2000, NOON + 60_000, NOON + 62_000, NOON + 62_001)
    for timestamp in times:
        for name in (topic, empty):
            both.ask("ListOffsets", replica_id=-1, topics=[offsets_at(name, timestamp)])
    both.ask("ListOffsets", replica_id=-1, isolation_level=1, topics=[offsets_at(topic, -1)])
    both.ask("ListOffsets", replica_id=-1, isolation_level=1, topics=[offsets_at(topic, NOON)])


@scenario("ListOffsets")
def list_offsets_of_what_is_not_there(both: Both) -> None:
    topic = both.topic()
    for wanted in (
        offsets_at(topic, -1, partition=5),
        offsets_at(topic, -1, partition=-1),
        offsets_at("nobody-made-this", -1),
        offsets_at("bad name", -1),
        offsets_at(topic, -1, epoch=0),
        offsets_at(topic, -1, epoch=5),
        offsets_at(topic, NOON, epoch=5),
        offsets_at(topic, NOON, epoch=-2),
    ):
        both.ask("ListOffsets", replica_id=-1, topics=[wanted])
    both.ask("ListOffsets", replica_id=-1, topics=[offsets_at(topic, -1), offsets_at(topic, -2)])
    one = offsets_at(topic, -1)["partitions"][0]
    both.ask("ListOffsets", replica_id=-1, topics=[{"name": topic, "partitions": [one, one]}])
    both.ask("ListOffsets", replica_id=-1, topics=[])
    both.ask("ListOffsets", replica_id=-2, topics=[offsets_at(topic, -1)])


@scenario("OffsetForLeaderEpoch")
def offset_for_leader_epoch(both: Both) -> None:
    topic = both.topic()
    both.fill(topic)
    for partition, current, epoch in (
        (0, -1, 0),
        (0, 0, 0),
        (0, -1, 5),
        (0, -1, -1),
        (0, 7, 0),
        (0, -2, 0),
        (4, -1, 0),
        (-1, -1, 0),
    ):
        one = {"partition": partition, "current_leader_epoch": current, "leader_epoch": epoch}
        both.ask("OffsetForLeaderEpoch", replica_id=-1, topics=[{"topic": topic, "partitions": [one]}])
    one = {"partition": 0, "current_leader_epoch": -1, "leader_epoch": 0}
    for name in ("nobody-made-this", "bad name"):
        both.ask("OffsetForLeaderEpoch", replica_id=-1, topics=[{"topic": name, "partitions": [one]}])
    both.ask("OffsetForLeaderEpoch", replica_id=-1, topics=[{"topic": topic, "partitions": [one, one]}])
    both.ask("OffsetForLeaderEpoch", replica_id=-1, topics=[])


@scenario("DeleteRecords")
def delete_records(both: Both) -> None:
    topic, compacted = both.topic(), both.topic(cleanup_policy="compact")
    both.fill(topic)
    here = named(both, topic)
    for name, partition, offset in (
        (topic, 0, 2),
        (topic, 0, 1),
        (topic, 0, 4),
        (topic, 0, -2),
        (topic, 5, 0),
        ("nobody-made-this", 0, 0),
        ("bad name", 0, 0),
        (compacted, 0, 0),
        ("__cluster_metadata", 0, 0),
    ):
        wanted = {"name": name, "partitions": [{"partition_index": partition, "offset": offset}]}
        both.ask("DeleteRecords", topics=[wanted], timeout_ms=10000)
    both.ask("Fetch", **fetched(here, 1))
    both.ask("Fetch", **fetched(here, 2))
    both.ask("ListOffsets", replica_id=-1, topics=[offsets_at(topic, -2)])
    both.ask("ListOffsets", replica_id=-1, topics=[offsets_at(topic, NOON)])
    all_of_it = {"name": topic, "partitions": [{"partition_index": 0, "offset": -1}]}
    both.ask("DeleteRecords", topics=[all_of_it], timeout_ms=10000)
    both.ask("ListOffsets", replica_id=-1, topics=[offsets_at(topic, NOON)])
    both.ask("ListOffsets", replica_id=-1, topics=[offsets_at(topic, -3)])
    both.ask("DeleteRecords", topics=[], timeout_ms=10000)


@scenario("InitProducerId")
def init_producer_id(both: Both) -> None:
    first = both.ask("InitProducerId", settle=True, transactional_id=None, transaction_timeout_ms=60000)
    ids = of_each(first, lambda a: a["producer_id"])
    for fields in (
        {"producer_id": ids, "producer_epoch": 0},
        {"producer_id": ids, "producer_epoch": -1},
        {"producer_id": -1, "producer_epoch": 0},
        {"producer_id": -2, "producer_epoch": -2},
        {"transaction_timeout_ms": 0},
        {"transaction_timeout_ms": -1},
        {"transaction_timeout_ms": 1 << 30},
    ):
        wanted: dict[str, Any] = {"transactional_id": None, "transaction_timeout_ms": 60000, **fields}
        both.ask("InitProducerId", **wanted)
    both.ask("InitProducerId", transactional_id="", transaction_timeout_ms=60000)


@scenario("DescribeProducers")
def describe_producers(both: Both) -> None:
    topic = both.topic(partitions=2)
    both.fill(topic, partition=1)
    ids = of_each(both.ask("InitProducerId", settle=True, transactional_id=None), lambda a: a["producer_id"])
    both.fill(topic, producer=ids)
    both.fill(topic, producer=ids, sequence=3)
    for name, partitions in (
        (topic, [0, 1]),
        (topic, [5, -1]),
        (topic, [0, 0]),
        (topic, []),
        ("nobody-made-this", [0]),
        ("bad name", [0]),
        ("", [0]),
    ):
        both.ask("DescribeProducers", topics=[{"name": name, "partition_indexes": partitions}])
    both.ask("DescribeProducers", topics=[])
