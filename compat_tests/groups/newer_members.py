"""Members of share groups and of streams groups: a few heartbeats each, byte for byte.

A member here stays until its session times out, because it sends no later heartbeats. Must not import Ottla.
"""

import struct
import time
from collections.abc import Sequence

from compat_tests.support.talking import Line

FIND_COORDINATOR, SHARE_GROUP_HEARTBEAT, STREAMS_GROUP_HEARTBEAT = 10, 76, 88
SETTINGS = [
    "offsets.topic.num.partitions=1",
    "share.coordinator.state.topic.num.partitions=1",
    "share.coordinator.state.topic.replication.factor=1",
    "share.coordinator.state.topic.min.isr=1",
    *(
        f"group.{kind}.{key}=600000"
        for kind in ("share", "streams")
        for key in ("max.session.timeout.ms", "session.timeout.ms")
    ),
    "group.streams.initial.rebalance.delay.ms=0",
]
"""Settings of brokers, with long sessions."""
PASSING = (14, 15, 16)
PATIENCE_S = 60
NULL, NO_TAGS, EMPTY = b"\x00", b"\x00", b"\x01"


def string(text: str) -> bytes:
    """Return a compact string."""
    data = text.encode()
    return bytes([len(data) + 1]) + data


def array(elements: Sequence[bytes]) -> bytes:
    """Return a compact array."""
    return bytes([len(elements) + 1]) + b"".join(elements)


def ask(bootstrap: str, api_key: int, version: int, body: bytes, client: str) -> bytes:
    """Return the body of the response, with retries while the coordinator is not available."""
    header = struct.pack(">hhih", api_key, version, 1, len(client)) + client.encode() + NO_TAGS
    deadline = time.monotonic() + PATIENCE_S
    while True:
        line = Line(bootstrap, PATIENCE_S)
        line.send_frame(header + body)
        frame = line.frame()
        line.socket.close()
        assert frame is not None
        answer = frame[5:]
        (code,) = struct.unpack(">h", answer[4:6])
        if code not in PASSING:
            assert code == 0, (code, answer)
            return answer
        assert time.monotonic() < deadline, code
        time.sleep(0.1)


def find_coordinator(bootstrap: str, group: str) -> None:
    """Look up a group's coordinator, which creates the topic of offsets."""
    ask(bootstrap, FIND_COORDINATOR, 3, string(group) + b"\x00" + NO_TAGS, "test")


def join_share_group(bootstrap: str, group: str, member: str, topics: Sequence[str]) -> None:
    """Join a share group as a member."""
    find_coordinator(bootstrap, group)
    body = string(group) + string(member) + struct.pack(">i", 0) + NULL + array([string(each) for each in topics])
    ask(bootstrap, SHARE_GROUP_HEARTBEAT, 1, body + NO_TAGS, f"client-of-{member}")


def join_streams_group(bootstrap: str, group: str, member: str, topic: str, partitions: Sequence[int]) -> None:
    """Join a streams group as its only member, with the tasks of all partitions of a topic."""
    find_coordinator(bootstrap, group)
    parts = string("0") + array([string(topic)]) + EMPTY * 5 + NO_TAGS
    topology = b"\x01" + struct.pack(">i", 0) + array([parts]) + NO_TAGS
    tasks = array([string("0") + array([struct.pack(">i", each) for each in partitions]) + NO_TAGS])
    epoch = 0
    for active in (EMPTY, tasks, tasks):
        body = string(group) + string(member) + struct.pack(">ii", epoch, 0) + NULL * 2 + struct.pack(">i", 60_000)
        body += (topology if epoch == 0 else b"\xff") + active + EMPTY * 2
        body += string("process") + b"\xff" + EMPTY + NULL * 2 + b"\x00" + NO_TAGS
        answer = ask(bootstrap, STREAMS_GROUP_HEARTBEAT, 0, body, f"client-of-{member}")
        assert answer[6:7] == NULL
        (epoch,) = struct.unpack(">i", answer[8 + len(member) : 12 + len(member)])


def leave_streams_group(bootstrap: str, group: str, member: str) -> None:
    """Leave a streams group as a member."""
    body = string(group) + string(member) + struct.pack(">ii", -1, 0) + NULL * 2 + struct.pack(">i", -1) + b"\xff"
    body += NULL * 3 + NULL + b"\xff" + NULL * 3 + b"\x00" + NO_TAGS
    ask(bootstrap, STREAMS_GROUP_HEARTBEAT, 0, body, f"client-of-{member}")
