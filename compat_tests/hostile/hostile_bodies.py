"""Bodies that do not follow the protocol, of many APIs, each with the answer of Apache Kafka 3.9.2.

The kinds: an array with a wrong length, an invalid name, invalid tagged fields, and a valid body that ends early.
"""

import struct
from collections.abc import Iterator, Mapping
from functools import partial
from typing import Any

from compat_tests.hostile.hostile import MAX_INT, bodied, codes
from compat_tests.hostile.hostile_requests import CASES, assigned, create
from compat_tests.support.talking import (
    ALTER_CONFIGS,
    ALTER_REPLICA_LOG_DIRS,
    CLOSED,
    CREATE_PARTITIONS,
    CREATE_TOPICS,
    DELETE_GROUPS,
    DELETE_RECORDS,
    DESCRIBE_CONFIGS,
    DESCRIBE_GROUPS,
    DESCRIBE_LOG_DIRS,
    FIND_COORDINATOR,
    HEARTBEAT,
    INCREMENTAL_ALTER_CONFIGS,
    JOIN_GROUP,
    LEAVE_GROUP,
    LIST_GROUPS,
    OFFSET_COMMIT,
    OFFSET_DELETE,
    OFFSET_FETCH,
    OFFSET_FOR_LEADER_EPOCH,
    SYNC_GROUP,
    Answer,
    Probe,
    body,
    say,
)

Body = tuple[str, int, int, bytes, Answer]
UNKNOWN_MEMBER = 25


def number(value: int) -> bytes:
    return struct.pack(">i", value)


def text(value: bytes) -> bytes:
    return struct.pack(">h", len(value)) + value


NULL = struct.pack(">h", -1)
AS_NOBODY = number(1) + text(b"nobody") + NULL
JOIN = number(10_000) * 2 + text(b"") + NULL + text(b"consumer")


def counts() -> Iterator[Body]:
    """Yield arrays at the begin of a body, then after the name of a group; `none` is the answer to a null array."""
    first: tuple[tuple[int, int, bytes, Answer], ...] = (
        (DESCRIBE_GROUPS, 0, b"", CLOSED),
        (DELETE_GROUPS, 1, b"", CLOSED),
        (CREATE_TOPICS, 4, number(1000) + b"\0", CLOSED),
        (CREATE_PARTITIONS, 1, number(1000) + b"\0", CLOSED),
        (DELETE_RECORDS, 1, number(1000), CLOSED),
        (DESCRIBE_CONFIGS, 1, b"\0", CLOSED),
        (ALTER_CONFIGS, 1, b"\0", CLOSED),
        (INCREMENTAL_ALTER_CONFIGS, 0, b"\0", CLOSED),
        (OFFSET_FOR_LEADER_EPOCH, 2, b"", CLOSED),
        (ALTER_REPLICA_LOG_DIRS, 1, b"", CLOSED),
        (DESCRIBE_LOG_DIRS, 1, b"", codes(0)),
    )
    named = (
        (JOIN_GROUP, 5, JOIN, CLOSED),
        (SYNC_GROUP, 3, AS_NOBODY, CLOSED),
        (LEAVE_GROUP, 3, b"", CLOSED),
        (OFFSET_COMMIT, 7, AS_NOBODY, CLOSED),
        (OFFSET_DELETE, 0, b"", CLOSED),
        (OFFSET_FETCH, 5, b"", codes(0)),
    )
    arrays = [(key, version, b"", tail, none) for key, version, tail, none in first]
    arrays += [(key, version, text(b"some") + rest, b"", none) for key, version, rest, none in named]
    for key, version, start, tail, none in arrays:
        for count, expected in ((MAX_INT, CLOSED), (2, CLOSED), (-1, none), (-2, none)):
            # An element has at least one byte.
            yield f"{count} elements", key, version, start + number(count) + tail[: max(0, count)], expected


def names() -> Iterator[Body]:
    """Yield bytes in place of the name of a group; any text is a valid name."""
    for key, version, rest, answer in (
        (JOIN_GROUP, 5, JOIN + number(1) + text(b"range") + number(0), codes(79)),
        (SYNC_GROUP, 3, AS_NOBODY + number(0), codes(UNKNOWN_MEMBER)),
        (HEARTBEAT, 3, AS_NOBODY, codes(UNKNOWN_MEMBER)),
        (LEAVE_GROUP, 3, number(1) + text(b"nobody") + NULL, codes(0, UNKNOWN_MEMBER)),
        (OFFSET_COMMIT, 7, number(-1) + text(b"") + NULL + number(0), codes()),
        (OFFSET_FETCH, 5, number(0), codes(0)),
        (OFFSET_DELETE, 0, number(0), codes(69)),
        (FIND_COORDINATOR, 2, b"\0", codes(0)),
    ):
        own = bytes([ord("A") + key])  # no probe meets the group of another
        for what, name, expected in (
            ("null", NULL, CLOSED),
            ("of length -7", struct.pack(">h", -7), CLOSED),
            ("beyond the end", b"\x7f\xffg", CLOSED),
            ("not UTF-8", text(own + b"\xff\xfe"), answer),
            ("half a surrogate", text(own + b"\xed\xa0\x80"), answer),
            ("a zero", text(own + b"\0"), answer),
            ("of the greatest length", text(own * 32767), answer),
        ):
            yield f"a group called {what}", key, version, name + rest, expected


def tags() -> Iterator[Body]:
    """Yield tagged fields at the end of a flexible Heartbeat, and at its begin."""
    answer = codes(UNKNOWN_MEMBER)
    rest = number(1) + b"\x07nobody\0"
    for what, tagged, expected in (
        ("a tag nobody knows", b"\x01\x09\x01x", answer),
        ("tags out of order", b"\x02\x09\x01x\x08\x01y", answer),
        ("one tag twice", b"\x02\x09\x01x\x09\x01y", answer),
        ("a tag beyond the end", b"\x01\x09\x7f", CLOSED),
        ("more tags than bytes", b"\x7f", CLOSED),
        ("a huge number of tags", b"\xff\xff\xff\xff\x0f", answer),
        ("a number of tags of six bytes", b"\x80\x80\x80\x80\x80\x00", CLOSED),
        ("bytes behind the body", b"\0and more", answer),
    ):
        yield what, HEARTBEAT, 4, b"\x05some" + rest + tagged, expected
    for what, start in (
        ("a group of null", b"\0"),
        ("a group of all lengths", b"\xff\xff\xff\xff\x0f"),
        ("a group of a length of seven bytes", b"\xff\xff\xff\xff\xff\xff\0"),
    ):
        yield what, HEARTBEAT, 4, start + rest + b"\0", CLOSED


def truncated(key: int, version: int, fields: Mapping[str, Any], bootstrap: str, name: str) -> Answer:
    """Send all prefixes of a body; return their answer if it is the same for all."""
    whole = body(key, version, fields)
    answers = {say(bootstrap, key, version, whole[:length]) for length in range(len(whole))}
    return answers.pop() if len(answers) == 1 else (*answers,)


_PARTITIONS = [{"name": "t", "partition_indexes": [0, 1]}]
_MEMBER = {"group_id": "some", "generation_id": 1, "member_id": "nobody", "group_instance_id": None}
_COMMITTED = {"partition_index": 0, "committed_offset": 1, "committed_leader_epoch": -1, "committed_metadata": "so"}
_OF_GROUPS: list[tuple[int, int, dict[str, Any]]] = [
    (
        *(JOIN_GROUP, 9),
        {
            "group_id": "some",
            "session_timeout_ms": 10_000,
            "rebalance_timeout_ms": 10_000,
            "member_id": "",
            "protocol_type": "consumer",
            "protocols": [{"name": "range", "metadata": b"me"}],
            "reason": "why",
        },
    ),
    (SYNC_GROUP, 5, {**_MEMBER, "assignments": [{"member_id": "nobody", "assignment": b"all"}]}),
    (HEARTBEAT, 4, _MEMBER),
    (LEAVE_GROUP, 5, {"group_id": "some", "members": [{"member_id": "a", "group_instance_id": None, "reason": "b"}]}),
    (
        *(OFFSET_COMMIT, 9),
        {
            "group_id": "some",
            "generation_id_or_member_epoch": -1,
            "member_id": "",
            "group_instance_id": None,
            "topics": [{"name": "t", "partitions": [_COMMITTED]}],
        },
    ),
    (OFFSET_FETCH, 7, {"group_id": "some", "topics": _PARTITIONS, "require_stable": True}),
    (OFFSET_FETCH, 9, {"groups": [{"group_id": "some", "topics": _PARTITIONS}], "require_stable": True}),
    (OFFSET_DELETE, 0, {"group_id": "some", "topics": [{"name": "t", "partitions": [{"partition_index": 0}]}]}),
    (DESCRIBE_GROUPS, 5, {"groups": ["some", "other"], "include_authorized_operations": True}),
    (LIST_GROUPS, 5, {"states_filter": ["Stable"], "types_filter": ["classic"]}),
    (DELETE_GROUPS, 2, {"groups_names": ["some", "other"]}),
    (CREATE_TOPICS, 7, create(assigned((0, [1])))),
]
# For each other API, the impossible request with the highest version.
_WHOLE = {key: (version, fields) for _, key, version, fields, _ in sorted(CASES, key=lambda case: case[2])}

MALFORMED: dict[str, tuple[Probe, Answer]] = {
    **{
        f"API {key} v{version}: {what}": (partial(bodied, key, version, data), expected)
        for kind in (counts(), names(), tags())
        for what, key, version, data, expected in kind
    },
    **{
        f"API {key} v{version}: any beginning of a body": (partial(truncated, key, version, fields), CLOSED)
        for key, version, fields in (*_OF_GROUPS, *((key, *request) for key, request in _WHOLE.items()))
    },
}
