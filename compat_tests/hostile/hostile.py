"""Bad input of every kind, each with the answer of Apache Kafka 3.9.2.

A probe takes the broker's address and a topic's name that no other probe uses; it returns an `Answer`.
"""

import struct
from collections.abc import Mapping
from functools import partial
from typing import Any

from kafka.record.default_records import DefaultRecordBatchBuilder
from kafka.record.legacy_records import LegacyRecordBatchBuilder
from kafka.record.util import calc_crc32c

from compat_tests.support.talking import (
    ALTER_REPLICA_LOG_DIRS,
    API_VERSIONS,
    CLOSED,
    CREATE_TOPICS,
    DELETE_TOPICS,
    DESCRIBE_CONFIGS,
    DESCRIBE_LOG_DIRS,
    FETCH,
    LIST_OFFSETS,
    METADATA,
    OFFSET_FOR_LEADER_EPOCH,
    PRODUCE,
    SILENT,
    Answer,
    Probe,
    ask,
    create_topic,
    decoded,
    head,
    learn,
    line,
    say,
)

NOW = 1_700_000_000_000
MAX_INT, MIN_INT = 2**31 - 1, -(2**31)
NONE, GZIP, SNAPPY, LZ4, ZSTD = range(5)


def codes(*expected: int) -> Answer:
    return ("answered", *expected)


# Frames


def raw(data: bytes, bootstrap: str, name: str) -> Answer:
    with line(bootstrap, patience_s=2) as to:
        to.send(data)
        try:
            return CLOSED if to.frame() is None else codes()
        except TimeoutError:
            return SILENT


def framed(frame: bytes, bootstrap: str, name: str) -> Answer:
    return raw(struct.pack(">i", len(frame)) + frame, bootstrap, name)


FRAMES: dict[str, tuple[bytes, Answer]] = {
    f"a frame of {size} bytes": (struct.pack(">i", size), CLOSED)
    for size in (-1, MIN_INT, 0, 104857601, MAX_INT)
} | {
    "http": (b"GET / HTTP/1.1\r\nHost: localhost\r\n\r\n", CLOSED),
    "tls": (b"\x16\x03\x01\x02\x00\x01" + bytes(60), CLOSED),
    "ssh": (b"SSH-2.0-OpenSSH_9.2\r\n", CLOSED),
}  # fmt: skip

_PLAIN_HEADER = struct.Struct(">hhih")
UNSPOKEN = {
    f"API {key} in version {version}": (_PLAIN_HEADER.pack(key, version, 1, -1) + bytes(40), CLOSED)
    for key, version in (
        *((999, 0), (-1, 0), (32767, 0), (-32768, 0), (3, 99), (3, -1), (3, 13), (0, 12), (1, 18), (2, 10), (10, 7)),
        *((19, 8), (20, 7), (21, 3), (22, 6), (23, 5), (32, 5), (33, 3), (34, 3), (35, 5), (37, 4), (44, 2), (46, 1)),
        *((60, 2), (61, 1), (4, 8), (5, 5), (6, 9), (7, 4)),
        *((52, 0), (53, 0), (54, 0), (55, 0), (59, 0), (62, 0), (63, 0)),
    )
}
# Versions that Kafka 4.0 dropped, of APIs that it has. A body of zeros is valid for each; in Produce it means acks=0.
OLD_VERSIONS = {
    f"API {key} in version {version}": (_PLAIN_HEADER.pack(key, version, 1, -1) + bytes(40), expected)
    for key, version, expected in (
        *((PRODUCE, version, SILENT) for version in (0, 1, 2)),
        *((FETCH, version, codes()) for version in (0, 1, 2, 3)),
        *((CREATE_TOPICS, version, codes()) for version in (0, 1)),
        *((OFFSET_FOR_LEADER_EPOCH, version, codes()) for version in (0, 1)),
        *((key, 0, codes()) for key in (LIST_OFFSETS, DELETE_TOPICS, DESCRIBE_CONFIGS)),
        *((key, 0, codes()) for key in (ALTER_REPLICA_LOG_DIRS, DESCRIBE_LOG_DIRS)),
    )
}
HEADERS = {
    "no header": (b"\x00", CLOSED),
    "half a header": (b"\x00\x12\x00\x00\x00\x00", CLOSED),
    "a client id beyond the end": (_PLAIN_HEADER.pack(18, 0, 1, 500), CLOSED),
    "a client id of negative length": (_PLAIN_HEADER.pack(18, 0, 1, -7), codes()),
    "a client id that is not UTF-8": (_PLAIN_HEADER.pack(18, 0, 1, 3) + b"\xff\xfe\x80", codes()),
    "bytes behind a whole body": (_PLAIN_HEADER.pack(18, 0, 1, -1) + b"and more", codes()),
    "header tags that nobody knows": (
        _PLAIN_HEADER.pack(18, 3, 1, -1) + b"\x02\x05\x01x\x07\x00\x02a\x02b\x00",
        codes(),
    ),
    "header tags out of order": (_PLAIN_HEADER.pack(18, 3, 1, -1) + b"\x02\x07\x01x\x05\x00\x02a\x02b\x00", codes()),
    "one header tag twice": (_PLAIN_HEADER.pack(18, 3, 1, -1) + b"\x02\x07\x01x\x07\x00\x02a\x02b\x00", codes()),
    "header tags beyond the end": (_PLAIN_HEADER.pack(18, 3, 1, -1) + b"\x01\x05\x7f", CLOSED),
    "more header tags than bytes": (_PLAIN_HEADER.pack(18, 3, 1, -1) + b"\x7f", CLOSED),
    "a varint of six bytes": (_PLAIN_HEADER.pack(18, 3, 1, -1) + b"\x80\x80\x80\x80\x80\x00", CLOSED),
}


def api_versions_of(version: int, bootstrap: str, name: str) -> Answer:
    """Send ApiVersions in an unknown version: the broker answers in version 0, for any body."""
    with line(bootstrap) as to:
        to.send_frame(_PLAIN_HEADER.pack(API_VERSIONS, version, 5, -1) + b"\x00\x01\x01\x00")
        frame = to.frame()
        if frame is None:
            return CLOSED
        found = decoded(frame, API_VERSIONS, 0)
        ranges = [(each["api_key"], each["min_version"], each["max_version"]) for each in found["api_keys"]]
        return (*codes(found["error_code"]), *ranges)


def halves(bootstrap: str, name: str) -> Answer:
    """Send half a frame: the broker waits for the rest, and serves other connections."""
    frame = head(API_VERSIONS, 0)
    whole = struct.pack(">i", len(frame)) + frame
    with line(bootstrap) as to:
        to.send(whole[:7])
        assert ask(bootstrap, API_VERSIONS, 0)[0] == "answered"
        to.send(whole[7:])
        return to.answer(API_VERSIONS, 0)


def announced(bootstrap: str, name: str) -> Answer:
    """Send only the size of a frame: the broker waits for the frame."""
    with line(bootstrap, patience_s=1) as to:
        to.send(struct.pack(">i", 104857600) + b"\x00")
        return to.answer(API_VERSIONS, 0)


def owed(bootstrap: str, name: str) -> Answer:
    """Send a valid request and a bad frame: the broker answers the request, then closes the connection."""
    with line(bootstrap) as to:
        to.send_frame(head(API_VERSIONS, 0))
        found = to.answer(API_VERSIONS, 0)
        to.send(struct.pack(">i", -5))
        return (*found, to.frame() is None)


# Bodies


def bodied(key: int, version: int, body: bytes, bootstrap: str, name: str) -> Answer:
    return say(bootstrap, key, version, body)


BODIES: dict[str, tuple[int, int, bytes, Answer]] = {
    f"Metadata {version}: {what}": (METADATA, version, body, expected)
    for what, version, body, expected in (
        ("nothing", 1, b"", CLOSED),
        ("three bytes", 1, b"\x00\x00\x00", CLOSED),
        ("as many topics as can be said", 1, b"\x7f\xff\xff\xff", CLOSED),
        ("fewer topics than announced", 1, b"\x00\x00\x00\x02\x00\x01a", CLOSED),
        ("a name beyond the end", 1, b"\x00\x00\x00\x01\x7f\xffa", CLOSED),
        ("a name of null", 1, b"\x00\x00\x00\x01\xff\xff", CLOSED),
        ("-2 topics", 1, b"\xff\xff\xff\xfe", codes(0, 0)),
        ("a name that is not UTF-8", 4, b"\x00\x00\x00\x01\x00\x02\xff\xfe\x00", codes(17)),
        ("a varint of seven bytes", 9, b"\xff\xff\xff\xff\xff\xff\x00", CLOSED),
        ("a huge number of tags", 9, b"\x01\x01\x01\x00\xff\xff\xff\xff\x0f", codes()),
        ("no more than a count", 9, b"\x02", CLOSED),
        ("a topic whose tags go beyond the end", 9, b"\x02\x02a\x01\x09\x7f", CLOSED),
        ("a topic with a tag nobody knows", 9, b"\x02\x04a b\x01\x09\x01x\x00\x00\x00\x00", codes(17)),
        ("bytes behind the body", 9, b"\x01\x00\x00\x00\x00and more", codes()),
    )
}


# Records


def batch(
    *values: bytes | None, key: bytes | None = b"k", timestamp: int = NOW, codec: int = NONE,
    producer: tuple[int, int, int] = (-1, -1, -1), transactional: bool = False,
) -> bytearray:  # fmt: skip
    """Return a batch of format 2 with a record for each value."""
    builder = DefaultRecordBatchBuilder(2, codec, transactional, *producer, 1 << 30)
    for offset, value in enumerate(values or (b"v",)):
        builder.append(offset, timestamp, key, value, [])
    return bytearray(builder.build())


def old_batch(magic: int) -> bytes:
    """Return a message set of the older formats."""
    builder = LegacyRecordBatchBuilder(magic, NONE, 1 << 20)
    builder.append(0, NOW if magic else None, b"k", b"v")
    return bytes(builder.build())


def with_crc(changed: bytearray) -> bytes:
    struct.pack_into(">I", changed, 17, calc_crc32c(bytes(changed[21:])))
    return bytes(changed)


def patched(position: int, form: str, value: int, base: bytearray | None = None) -> bytes:
    """Return a batch with one changed field and a correct checksum."""
    changed = batch() if base is None else base
    struct.pack_into(form, changed, position, value)
    return with_crc(changed)


def produce_fields(topic: str, records: bytes | None, **fields: Any) -> dict[str, Any]:
    partition = {"index": fields.pop("partition", 0), "records": records}
    data = [{"name": topic, "partition_data": [partition]}]
    return {"transactional_id": None, "acks": -1, "timeout_ms": 5000, "topic_data": data} | fields


def produced(
    data: bytes | bytearray | None, configs: Mapping[str, str], version: int, fields: Mapping[str, Any],
    bootstrap: str, name: str,
) -> Answer:  # fmt: skip
    """Produce bad data, then good data: the log must have no bad data."""
    create_topic(bootstrap, name, **configs)
    records = None if data is None else bytes(data)
    found = ask(bootstrap, PRODUCE, version, **produce_fields(name, records, **fields))
    if found[1:] == (0,):
        return found
    good = learn(bootstrap, PRODUCE, 9, **produce_fields(name, bytes(batch(timestamp=NOW))))
    offsets = [p["base_offset"] for each in good["responses"] for p in each["partition_responses"]]
    return (*found, *offsets)


def refused(code: int) -> Answer:
    """Return the answer for a batch with an error, and the next good batch with offset 0."""
    return codes(code, 0)


BATCHES: dict[str, tuple[bytes | bytearray | None, Answer]] = {
    "crc": (batch()[:17] + bytes(4) + batch()[21:], refused(2)),
    "magic 5": (patched(16, ">b", 5), refused(2)),
    "magic -1": (patched(16, ">b", -1), refused(2)),
    "length zero": (patched(8, ">i", 0), refused(2)),
    "length negative": (patched(8, ">i", -1), refused(2)),
    "length 48": (patched(8, ">i", 48), refused(2)),
    "length huge": (patched(8, ">i", MAX_INT), refused(-1)),
    "count too high": (patched(57, ">i", 2), refused(87)),
    "count too low": (patched(57, ">i", 1, batch(b"a", b"b")), refused(87)),
    "count zero": (patched(57, ">i", 0), refused(87)),
    "count negative": (patched(57, ">i", -1), refused(87)),
    "count huge": (patched(57, ">i", MAX_INT), refused(87)),
    "last offset delta": (patched(23, ">i", 7), refused(87)),
    "last offset delta negative": (patched(23, ">i", -1), refused(87)),
    "record length beyond the batch": (patched(61, ">b", 0x7E), refused(87)),
    "record length negative": (patched(61, ">b", 1), refused(87)),
    "record offset": (patched(64, ">b", 4), codes(0)),
    "key length beyond the record": (patched(65, ">b", 0x7E), refused(87)),
    "header count negative": (patched(69, ">b", 1), refused(87)),
    "header count too high": (patched(69, ">b", 2), refused(87)),
    "two batches": (batch() + batch(), refused(87)),
    "truncated": (batch()[:-3], refused(87)),
    "less than a header": (batch()[:11], refused(87)),
    "a byte": (b"\x00", refused(87)),
    "header without records": (with_crc(batch()[:61]), refused(87)),
    "header that says so without records": (
        patched(57, ">i", 0, bytearray(patched(8, ">i", 49, batch()[:61]))),
        refused(87),
    ),
    "no records": (b"", refused(87)),
    "null records": (None, (*SILENT, 0)),
    "junk behind a batch": (batch() + b"junk", codes(0)),
    "a message set of magic 0": (old_batch(0), refused(87)),
    "a message set of magic 1": (old_batch(1), refused(87)),
    "unknown codec": (patched(21, ">h", 7), refused(-1)),
    "junk behind gzip": (patched(21, ">h", GZIP), refused(-1)),
    "junk behind snappy": (patched(21, ">h", SNAPPY), refused(-1)),
    "junk behind lz4": (patched(21, ">h", LZ4), refused(-1)),
    "junk behind zstd": (patched(21, ">h", ZSTD), refused(-1)),
    "unused attributes": (patched(21, ">h", 0x7F00), codes(0)),
    "control batch": (patched(21, ">h", 0x20), refused(87)),
    "log append time said by a client": (patched(21, ">h", 0x08), codes(0)),
    "delete horizon": (patched(21, ">h", 0x40), codes(0)),
    "a base offset of 7": (patched(0, ">q", 7), refused(87)),
    "a base offset below zero": (patched(0, ">q", -7), refused(87)),
    "a leader epoch": (patched(12, ">i", 77), codes(0)),
    "a timestamp far ahead": (batch(timestamp=2**42), codes(0)),
    "a timestamp below -1": (batch(timestamp=-2), codes(0)),
    "no timestamp": (batch(timestamp=-1), codes(0)),
    "a maximum timestamp that is none": (patched(35, ">q", 5), codes(0)),
    "a producer id without an epoch": (batch(producer=(5, -1, 0)), codes(0)),
    "a producer id without a sequence": (batch(producer=(5, 0, -1)), refused(87)),
    "a sequence that does not begin at 0": (batch(producer=(99999, 0, 7)), codes(0)),
    "an epoch below -1": (batch(producer=(5, -7, 0)), refused(47)),
    "a producer id below -1": (batch(producer=(-7, 0, 0)), codes(0)),
}

_PRODUCED: list[tuple[str, bytes | bytearray, dict[str, str], int, dict[str, Any], Answer]] = [
    ("no key on a compacted topic", batch(key=None), {"cleanup_policy": "compact"}, 9, {}, refused(87)),
    ("too far ahead", batch(timestamp=2**42), {"message_timestamp_after_max_ms": "1000"}, 9, {}, refused(32)),
    ("too far behind", batch(), {"message_timestamp_before_max_ms": "1000"}, 9, {}, codes(32, -1)),
    ("too large", batch(b"x" * 300), {"max_message_bytes": "200"}, 9, {}, refused(10)),
    ("zstd in version 6", batch(bytes(300), codec=ZSTD), {}, 6, {}, refused(76)),
    *((f"acks={acks}", batch(), {}, 9, {"acks": acks}, refused(21)) for acks in (2, -2, 32767)),
    *((f"partition {each}", batch(), {}, 9, {"partition": each}, refused(3)) for each in (1, -1, MAX_INT, MIN_INT)),
    ("no time", batch(), {}, 9, {"timeout_ms": 0}, codes(0)),
    ("less than no time", batch(), {}, 9, {"timeout_ms": -5}, codes(0)),
    ("transactional without an id", batch(producer=(1, 0, 0), transactional=True), {}, 9, {}, refused(53)),
    (
        *("of a transactional id nobody has", batch(producer=(1, 0, 0), transactional=True), {}, 9),
        *({"transactional_id": "nobody"}, refused(19)),
    ),
    ("an id without a transaction", batch(), {}, 9, {"transactional_id": "nobody"}, codes(0)),
]


def same_partition_twice(bootstrap: str, name: str) -> Answer:
    create_topic(bootstrap, name)
    fields = produce_fields(name, bytes(batch()))
    fields["topic_data"] *= 2
    return ask(bootstrap, PRODUCE, 9, **fields)


def unacknowledged(bootstrap: str, name: str) -> Answer:
    """Send a bad batch with acks=0: the broker closes the connection, because there is no response."""
    create_topic(bootstrap, name)
    fields = produce_fields(name, bytes(batch()), partition=5, acks=0)
    return ask(bootstrap, PRODUCE, 9, **fields)


def fetched(
    version: int, offset: int, asked: Mapping[str, Any], fields: Mapping[str, Any], bootstrap: str, name: str
) -> Answer:
    """Fetch from a topic of one record."""
    create_topic(bootstrap, name)
    assert ask(bootstrap, PRODUCE, 9, **produce_fields(name, bytes(batch()))) == codes(0)
    return ask(bootstrap, FETCH, version, **fetch_fields(name, offset, asked, fields))


def fetch_fields(name: str, offset: int, asked: Mapping[str, Any], fields: Mapping[str, Any]) -> dict[str, Any]:
    partition = {
        "partition": 0, "current_leader_epoch": -1, "fetch_offset": offset, "last_fetched_epoch": -1,
        "log_start_offset": -1, "partition_max_bytes": 1 << 20,
    }  # fmt: skip
    topics = [{"topic": name, "partitions": [partition | dict(asked)]}]
    return {
        "replica_id": -1, "max_wait_ms": 0, "min_bytes": 0, "max_bytes": 1 << 20, "isolation_level": 0,
        "session_id": 0, "session_epoch": -1, "topics": topics, "forgotten_topics_data": [], "rack_id": "",
    } | dict(fields)  # fmt: skip


def zstd_topic(bootstrap: str, name: str) -> Answer:
    create_topic(bootstrap, name, compression_type="zstd")
    return ask(bootstrap, FETCH, 9, **fetch_fields(name, 0, {}, {}))


_FETCHED: list[tuple[str, int, int, dict[str, Any], dict[str, Any], Answer]] = [
    *((f"offset {each}", 12, each, {}, {}, codes(0, 1)) for each in (-1, 2, 2**60, -(2**63))),
    ("the end", 12, 1, {}, {}, codes(0, 0)),
    ("an unknown session", 12, 0, {}, {"session_id": 4711, "session_epoch": 3}, codes(70)),
    ("a session below zero", 12, 0, {}, {"session_id": -3, "session_epoch": 3}, codes(70)),
    ("epoch 7 of no session", 12, 0, {}, {"session_epoch": 7}, codes(70)),
    ("epoch -7 of no session", 12, 0, {}, {"session_epoch": -7}, codes(70)),
    ("an end of an unknown session", 12, 0, {}, {"session_id": 4711}, codes(0, 0)),
    *((f"partition {each}", 12, 0, {"partition": each}, {}, codes(0, 3)) for each in (1, -1, MAX_INT)),
    ("no bytes at most", 12, 0, {}, {"max_bytes": 0}, codes(0, 0)),
    *((f"{each} bytes at most", 12, 0, {}, {"max_bytes": each}, codes(0, -1)) for each in (-1, MIN_INT)),
    ("no bytes of a partition at most", 12, 0, {"partition_max_bytes": 0}, {}, codes(0, 0)),
    *(
        (f"{each} bytes of a partition at most", 12, 0, {"partition_max_bytes": each}, {}, codes(0, -1))
        for each in (-1, MIN_INT)
    ),
    ("at least all bytes", 12, 0, {}, {"min_bytes": MAX_INT}, codes(0, 0)),
    ("less than no wait", 12, 0, {}, {"max_wait_ms": -1, "min_bytes": 100_000}, codes(0, 0)),
    ("isolation 7", 12, 0, {}, {"isolation_level": 7}, codes(-1, -1)),
    ("isolation -1", 12, 0, {}, {"isolation_level": -1}, codes(-1, -1)),
    ("leader epoch 9", 12, 0, {"current_leader_epoch": 9}, {}, codes(0, 75)),
    ("leader epoch -9", 12, 0, {"current_leader_epoch": -9}, {}, codes(0, 0)),
    ("last fetched epoch 9", 12, 1, {"last_fetched_epoch": 9}, {}, codes(0, 1)),
    ("as a replica", 12, 0, {}, {"replica_id": 1}, codes(0, 6)),
    ("as a replica nobody knows", 12, 0, {}, {"replica_id": 9}, codes(0, 6)),
    ("as a replica of id -7", 12, 0, {}, {"replica_id": -7}, codes(0, 0)),
    ("as the debugger", 12, 0, {}, {"replica_id": -2}, codes(0, 0)),
    (
        *("forgotten is what was never asked for", 12, 0, {}),
        *({"forgotten_topics_data": [{"topic": "x", "partitions": [5, -1]}]}, codes(0, 0)),
    ),
]


PROBES: dict[str, tuple[Probe, Answer]] = {
    **{f"raw: {what}": (partial(raw, data), expected) for what, (data, expected) in FRAMES.items()},
    **{
        what: (partial(framed, data), expected)
        for what, (data, expected) in (UNSPOKEN | OLD_VERSIONS | HEADERS).items()
    },
    **{
        what: (partial(bodied, key, version, body), expected) for what, (key, version, body, expected) in BODIES.items()
    },
    **{
        f"ApiVersions in version {version}": (partial(api_versions_of, version), (*codes(35), (API_VERSIONS, 0, 4)))
        for version in (5, 77, 32767, -1)
    },
    "half a frame": (halves, codes(0)),
    "a frame that never comes": (announced, SILENT),
    "a bad frame behind a good one": (owed, (*codes(0), True)),
    **{
        f"Produce: {what}": (partial(produced, data, configs, version, fields), expected)
        for what, data, configs, version, fields, expected in _PRODUCED
    },
    **{
        f"Produce: {what}": (partial(produced, data, {}, 9, {}), expected) for what, (data, expected) in BATCHES.items()
    },
    "Produce: one partition twice": (same_partition_twice, codes(0)),
    "Produce: an error with acks=0": (unacknowledged, CLOSED),
    **{
        f"Fetch: {what}": (partial(fetched, version, offset, asked, fields), expected)
        for what, version, offset, asked, fields, expected in _FETCHED
    },
    "Fetch: zstd before version 10": (zstd_topic, codes(0, 76)),
}
