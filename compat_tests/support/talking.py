"""Requests to a broker byte for byte, and its answers in a form that can be compared.

Messages are kafka-python's. Must not import Ottla.
"""

import contextlib
import socket
import struct
from collections.abc import Callable, Iterator, Mapping
from typing import Any

import kafka.protocol.admin
import kafka.protocol.consumer
import kafka.protocol.metadata
import kafka.protocol.producer

# A broker's reaction: ("closed",), ("silent",), or ("answered", error codes...), first that of the whole response.
Answer = tuple[Any, ...]
CLOSED: Answer = ("closed",)
SILENT: Answer = ("silent",)

API_VERSIONS, METADATA, PRODUCE, FETCH, LIST_OFFSETS, FIND_COORDINATOR = 18, 3, 0, 1, 2, 10
CREATE_TOPICS, DELETE_TOPICS, DELETE_RECORDS, INIT_PRODUCER_ID, OFFSET_FOR_LEADER_EPOCH = 19, 20, 21, 22, 23
DESCRIBE_CONFIGS, ALTER_CONFIGS, ALTER_REPLICA_LOG_DIRS, DESCRIBE_LOG_DIRS, CREATE_PARTITIONS = 32, 33, 34, 35, 37
INCREMENTAL_ALTER_CONFIGS, LIST_PARTITION_REASSIGNMENTS, DESCRIBE_CLUSTER, DESCRIBE_PRODUCERS = 44, 46, 60, 61

OFFSET_COMMIT, OFFSET_FETCH, JOIN_GROUP, HEARTBEAT, LEAVE_GROUP, SYNC_GROUP = 8, 9, 11, 12, 13, 14
DESCRIBE_GROUPS, LIST_GROUPS, DELETE_GROUPS, OFFSET_DELETE = 15, 16, 42, 47

_MODULES = (kafka.protocol.admin, kafka.protocol.consumer, kafka.protocol.metadata, kafka.protocol.producer)
# Requests and responses by API number.
MESSAGES: dict[int, tuple[Any, Any]] = {
    getattr(module, name).API_KEY: (getattr(module, name), getattr(module, name.removesuffix("Request") + "Response"))
    for module in _MODULES
    for name in module.__all__
    if name.endswith("Request")
}
# The fields by which an answer's parts are sorted, because brokers answer in the order of their hash maps.
_NAMES = ("name", "topic", "resource_type", "resource_name", "partition_index", "index", "partition", "key")


class Line:
    """A connection."""

    def __init__(self, bootstrap: str, patience_s: float = 5.0) -> None:
        host, port = bootstrap.rsplit(":", 1)
        self.socket = socket.create_connection((host, int(port)), 5.0)
        self.socket.settimeout(patience_s)

    def send(self, data: bytes) -> None:
        """Send bytes, as many as the broker takes."""
        with contextlib.suppress(ConnectionError):
            self.socket.sendall(data)

    def send_frame(self, frame: bytes) -> None:
        """Send bytes after their correct size."""
        self.send(struct.pack(">i", len(frame)) + frame)

    def frame(self) -> bytes | None:
        """Return the next reply without its size; None after the broker closed. TimeoutError if it is silent."""
        head = self._exactly(4)
        return None if head is None else self._exactly(struct.unpack(">i", head)[0])

    def answer(self, key: int, version: int) -> Answer:
        """Return the broker's reaction to such a request."""
        try:
            frame = self.frame()
        except TimeoutError:
            return SILENT
        return CLOSED if frame is None else ("answered", *error_codes(decoded(frame, key, version)))

    def _exactly(self, count: int) -> bytes | None:
        data = b""
        while len(data) < count:
            try:
                piece = self.socket.recv(count - len(data))
            except ConnectionError:
                return None
            if not piece:
                return None
            data += piece
        return data


@contextlib.contextmanager
def line(bootstrap: str, patience_s: float = 5.0) -> Iterator[Line]:
    """Yield a connection, open during the block."""
    opened = Line(bootstrap, patience_s)
    try:
        yield opened
    finally:
        opened.socket.close()


def head(key: int, version: int, correlation_id: int = 1, client_id: bytes | None = b"probe") -> bytes:
    """Return a request header, flexible if the message is."""
    encoded = struct.pack(">h", -1) if client_id is None else struct.pack(">h", len(client_id)) + client_id
    flexible = key in MESSAGES and MESSAGES[key][0].flexible_version_q(version)
    return struct.pack(">hhi", key, version, correlation_id) + encoded + (b"\0" if flexible else b"")


def body(key: int, version: int, fields: Mapping[str, Any]) -> bytes:
    """Encode a request without its header."""
    request = _struct(MESSAGES[key][0], fields)
    return bytes(request.encode(version=version))


def _struct(kind: Any, fields: Mapping[str, Any]) -> Any:
    """Return kafka-python's object for fields that may be lists of fields."""
    values = {}
    for name, value in fields.items():
        field = kind.fields[name]
        if isinstance(value, list) and field.is_struct_array():
            values[name] = [_struct(field.data_class, each) for each in value]
        elif isinstance(value, Mapping):
            values[name] = _struct(field.data_class, value)
        else:
            values[name] = value
    return kind(**values)


def decoded(frame: bytes, key: int, version: int) -> dict[str, Any]:
    """Decode a reply."""
    if key == API_VERSIONS and version > 0 and frame[4:6] != b"\0\0":
        # kafka-python decodes every error as version 0.
        return {"error_code": struct.unpack_from(">h", frame, 4)[0]}
    found: dict[str, Any] = MESSAGES[key][1].decode(frame, version=version, header=True).to_dict(json=False)
    return found


def error_codes(response: Mapping[str, Any]) -> list[int]:
    """Return all error codes of a response, sorted by the names of their topics, groups and so on."""
    found: list[tuple[tuple[str, ...], int]] = []
    _collect(response, (), found)
    return [code for _, code in sorted(found)]


def _collect(part: Mapping[str, Any], path: tuple[str, ...], found: list[tuple[tuple[str, ...], int]]) -> None:
    path = (*path, *(str(part.get(name)) for name in _NAMES if name in part))
    if "error_code" in part:
        found.append((path, part["error_code"]))
    for value in part.values():
        if isinstance(value, list):
            for each in value:
                if isinstance(each, Mapping):
                    _collect(each, path, found)


def ask(bootstrap: str, key: int, version: int, /, **fields: Any) -> Answer:
    """Send a request over a connection of its own."""
    return say(bootstrap, key, version, body(key, version, fields))


def say(bootstrap: str, key: int, version: int, body: bytes) -> Answer:
    """Send a body, well-formed or not, after a valid header."""
    with line(bootstrap) as to:
        to.send_frame(head(key, version) + body)
        return to.answer(key, version)


def learn(bootstrap: str, key: int, version: int, /, **fields: Any) -> dict[str, Any]:
    """Send a request that a broker always answers, and return the whole answer."""
    with line(bootstrap, patience_s=60) as to:
        to.send_frame(head(key, version) + body(key, version, fields))
        frame = to.frame()
        assert frame is not None, f"closed instead of an answer to {key} v{version}"
        return decoded(frame, key, version)


def create_topic(bootstrap: str, name: str, **configs: str) -> None:
    """Create a topic of one partition, and wait for its leader."""
    topic = {
        "name": name,
        "num_partitions": 1,
        "replication_factor": 1,
        "assignments": [],
        "configs": [{"name": k.replace("_", "."), "value": v} for k, v in configs.items()],
    }
    found = learn(bootstrap, CREATE_TOPICS, 4, topics=[topic], timeout_ms=30_000)
    assert found["topics"][0]["error_code"] == 0, found


Probe = Callable[[str, str], Answer]
