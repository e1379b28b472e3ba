"""One request to two brokers, Ottla and Apache Kafka, and the differences of their answers.

Requests and answers are encoded and decoded by kafka-python's schemas, which come from Kafka's. Must not import Ottla.
Values that differ between any two brokers (ids, ports, directories) are replaced by words before the comparison.
"""

import itertools
import re
import socket
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, Final, NamedTuple

import kafka.protocol.admin
import kafka.protocol.consumer
import kafka.protocol.metadata
import kafka.protocol.producer
from kafka.protocol.api_message import ApiMessage
from kafka.record.memory_records import MemoryRecordsBuilder

from compat_tests.support.brokers import Broker

Answer = dict[str, Any]
CLOSED: Final[Answer] = {"closed": True}
NOBODY: Final = "00000000-0000-0000-0000-000000000000"
# The id of no topic: as bytes, and in Kafka's JSON.
_NO_IDS: Final = (None, "", "AAAAAAAAAAAAAAAAAAAAAA")
# A topic whose creation timed out has an id nevertheless.
_OF_TOPICS_THAT_ARE: Final = (None, 0, 7)
# The last full hour but one in milliseconds, because records older than a week may be deleted at any time.
NOON: Final = (int(time.time()) // 3600 - 1) * 3_600_000
PATIENCE_S: Final = 120.0
_TIMEOUT_S: Final = 20.0
LINE: Final = "both"
UUID: Final = re.compile("[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}")
_API_VERSIONS: Final = 18
_MODULES: Final = (kafka.protocol.admin, kafka.protocol.consumer, kafka.protocol.metadata, kafka.protocol.producer)

# Lists without a significant order.
_SETS: Final = ("partitions", "unknown_state_filters")
_BROKER_IDS: Final = frozenset({"node_id", "leader_id", "controller_id", "broker_id", "replica_nodes", "isr_nodes"})
# The fields that identify an element of an array.
_IDENTITY: Final = (
    *(
        "transactional_id",
        "group_id",
        "member_id",
        "group_instance_id",
        "name",
        "topic",
        "topic_name",
        "api_key",
        "resource_type",
    ),
    *("resource_name", "config_name", "log_dir", "partition_index", "partition", "partition_id", "index", "key"),
    *("node_id", "broker_id", "producer_id"),
)


class PerSide(NamedTuple):
    """A value of each of the two brokers."""

    ottla: Any
    kafka: Any


class Difference(NamedTuple):
    """A place where two answers differ, with both values."""

    where: str
    ottla: Any
    kafka: Any

    def __str__(self) -> str:
        return f"{self.where}: Ottla {self.ottla!r}, Kafka {self.kafka!r}"


class Text:
    """Equals any text with this prefix but the empty one, for messages in other words."""

    def __init__(self, start: str = "") -> None:
        self.start = start

    def __eq__(self, other: object) -> bool:
        return isinstance(other, str) and other.startswith(self.start) and bool(other)

    def __hash__(self) -> int:
        return 0

    def __repr__(self) -> str:
        return f"'{self.start}...'"


TEXT: Final = Text()


class Deviation(NamedTuple):
    """An allowed difference: the place (a regular expression), both values, the reason. `...` stands for any value."""

    where: str
    ottla: Any
    kafka: Any
    reason: str

    def covers(self, found: Difference) -> bool:
        """Whether a found difference is this one."""
        values = ((self.ottla, found.ottla), (self.kafka, found.kafka))
        return bool(re.search(self.where, found.where)) and all(a is ... or a == b for a, b in values)


class Names:
    """One broker's own values, learned from its answers, and the words that replace them."""

    def __init__(
        self, broker: Broker, more: Mapping[str, Callable[[Any], Any]] | None = None, repeats: bool = False
    ) -> None:
        """Functions in `more` replace the values of fields. With `repeats`, elements of one name are numbered."""
        self.broker = broker
        self.topics: dict[str, str] = {}
        self.cluster_id = ""
        self.broker_id = -1
        self._more = more or {}
        self._keyed = _numbered if repeats else _keyed

    def learn(self, value: Any) -> None:
        """Remember the names of topic ids."""
        if isinstance(value, list):
            for each in value:
                self.learn(each)
        elif isinstance(value, dict):
            is_there = value.get("error_code") in _OF_TOPICS_THAT_ARE
            if value.get("topic_id") not in _NO_IDS and value.get("name") and is_there:
                self.topics[str(value["topic_id"])] = value["name"]
            self.learn(list(value.values()))

    def normalised(self, value: Any, name: str = "") -> Any:
        """Return an answer with words in place of this broker's own values."""
        if isinstance(value, dict):
            if "leader" in value and value["leader"] == value.get("member_id"):
                value = {**value, "leader": "itself"}
            return {key: self.normalised(each, key) for key, each in value.items()}
        if isinstance(value, list | tuple):
            found = [self.normalised(each, name) for each in value]
            is_set = name in _SETS and not any(isinstance(each, dict) for each in found)
            return sorted(found) if is_set else self._keyed(found)
        words: dict[str, Callable[[], Any]] = {
            "topic_id": lambda: f"id of {self.topics.get(str(value), value)}",
            "cluster_id": lambda: "the cluster" if value == self.cluster_id else value,
            "port": lambda: "the port" if value == self.broker.port else value,
            "session_id": lambda: "a session" if value > 0 else value,
            "producer_id": lambda: "a producer" if value >= 0 else value,
            "log_dir": lambda: value.replace(str(self.broker.data), "its data"),
            "total_bytes": lambda: value > 0,
            "usable_bytes": lambda: value > 0,
            "resource_name": lambda: "the broker" if value == str(self.broker_id) else value,
            # A member's id is the id of its client or its instance, and a random part.
            "member_id": lambda: UUID.sub("ID", value),
            "leader": lambda: UUID.sub("ID", value),
        }
        if name in self._more:
            return self._more[name](value)
        if name in _BROKER_IDS and value == self.broker_id:
            return "the broker"
        if isinstance(value, memoryview | bytearray):
            value = bytes(value)
        return words[name]() if name in words else value


class Side:
    """A connection to one of the brokers, and the broker's own values."""

    def __init__(self, broker: Broker) -> None:
        self.broker = broker
        self.names = Names(broker)
        self._sockets: dict[str, socket.socket] = {}
        self.versions = {each["api_key"]: each for each in self.ask("ApiVersions", 0, {})["api_keys"]}
        about = self.ask("Metadata", 4, {"topics": []})
        self.names.cluster_id, self.names.broker_id = about["cluster_id"], about["brokers"][0]["node_id"]

    def ask(self, api: str, version: int, fields: Answer, line: str = LINE) -> Answer:
        """Send a request; return the answer, or the note that the connection was closed."""
        return self.receive(api, version, line) if self.send(api, version, fields, line) else {}

    def send(self, api: str, version: int, fields: Answer, line: str = LINE) -> bool:
        """Send a request over the connection `line`, which is also the client's id; return whether it is answered."""
        request_class, _ = _classes(api)
        request = request_class(version=version, **_built(request_class, version, fields))
        request.with_header(correlation_id=7, client_id=line)
        if line not in self._sockets:
            self._sockets[line] = socket.create_connection(("127.0.0.1", self.broker.port), _TIMEOUT_S)
        self._sockets[line].sendall(request.encode(header=True, framed=True))
        return bool(request.expect_response())

    def receive(self, api: str, version: int, line: str = LINE) -> Answer:
        """Return the answer, or the note that the connection was closed."""
        try:
            reply = self._exactly(line, int.from_bytes(self._exactly(line, 4), "big"))
        except ConnectionError:
            self._sockets.pop(line).close()
            return CLOSED
        answer: Answer = _decoded(_classes(api)[1], reply, version).to_dict(json=False)
        self.names.learn(answer)
        return answer

    def close(self) -> None:
        """Close the connections; the next request opens a new one."""
        for each in self._sockets.values():
            each.close()
        self._sockets.clear()

    def _exactly(self, line: str, count: int) -> bytes:
        data = b""
        while len(data) < count:
            piece = self._sockets[line].recv(count - len(data))
            if not piece:
                raise ConnectionResetError
            data += piece
        return data


class Both:
    """Two brokers that get the same requests, and the differences of their answers."""

    def __init__(self, ottla: Broker, kafka: Broker) -> None:
        self.ottla = Side(ottla)
        self.kafka = Side(kafka)
        self.broker_id = PerSide(self.ottla.names.broker_id, self.kafka.names.broker_id)
        self.differences: list[Difference] = []
        self._numbers = itertools.count()
        self._api, self.version = "", 0

    def common_versions(self, api: str) -> list[int]:
        """Return the versions that both brokers advertise."""
        key = api_key(api)
        mine, theirs = self.ottla.versions[key], self.kafka.versions[key]
        lowest = max(mine["min_version"], theirs["min_version"])
        return list(range(lowest, min(mine["max_version"], theirs["max_version"]) + 1))

    def begin(self, api: str, version: int) -> None:
        """Use this version of this API for later requests, over new connections."""
        self._api, self.version = api, version
        self.close()

    def close(self) -> None:
        """Close both connections."""
        self.ottla.close()
        self.kafka.close()

    def ask(self, api: str, settle: bool = False, line: str = LINE, **fields: Any) -> PerSide:
        """Ask both and compare. With `settle`, retry until both agree, because Kafka's broker applies changes late."""
        version = self.version_of(api)
        deadline = time.monotonic() + PATIENCE_S
        while True:
            answers = self.ask_without_comparing(api, version, line, **fields)
            found = list(self._compare(f"{api} v{version}", answers))
            if not (found and settle) or time.monotonic() > deadline:
                break
            time.sleep(0.05)
        self.differences += found
        return answers

    def ask_without_comparing(self, api: str, version: int, line: str = LINE, **fields: Any) -> PerSide:
        """Return both answers."""
        return PerSide(
            self.ottla.ask(api, version, _of_side(fields, 0), line),
            self.kafka.ask(api, version, _of_side(fields, 1), line),
        )

    def version_of(self, api: str) -> int:
        """Return the version of this API for the next request."""
        return self.version if api == self._api else max(self.common_versions(api))

    def send(self, api: str, line: str, **fields: Any) -> None:
        """Send a request to both over the connections `line`, without waiting for the answers."""
        version = self.version_of(api)
        self.ottla.send(api, version, _of_side(fields, 0), line)
        self.kafka.send(api, version, _of_side(fields, 1), line)

    def receive(self, api: str, line: str) -> PerSide:
        """Wait for both answers, and compare."""
        version = self.version_of(api)
        answers = PerSide(self.ottla.receive(api, version, line), self.kafka.receive(api, version, line))
        self.compare(f"{api} v{version}", answers)
        return answers

    def compare(self, where: str, answers: PerSide) -> None:
        """Remember the differences of answers."""
        self.differences += self._compare(where, answers)

    def new_name(self) -> str:
        """Return a new name."""
        return f"topic-{next(self._numbers)}"

    def topic(self, partitions: int = 1, **configs: str) -> str:
        """Create a topic; return its name after both brokers lead it."""
        name = self.new_name()
        wanted = {
            "name": name,
            "num_partitions": partitions,
            "replication_factor": 1,
            "configs": [{"name": key.replace("_", "."), "value": value} for key, value in configs.items()],
        }
        created = self.ask_without_comparing("CreateTopics", 7, topics=[wanted], timeout_ms=30000)
        assert [each["topics"][0]["error_code"] for each in created] == [0, 0], created
        self.wait_for(name, partitions)
        return name

    def wait_for(self, name: str, partitions: int = 1) -> None:
        """Wait until both brokers lead all partitions of a topic."""
        deadline = time.monotonic() + PATIENCE_S
        asked = [{"partition_index": index, "timestamp": -1} for index in range(partitions)]
        for side in (self.ottla, self.kafka):
            while True:
                # Metadata has the id, but perhaps before the broker knows that it leads.
                side.ask("Metadata", 12, {"topics": [{"name": name}], "allow_auto_topic_creation": False})
                (told,) = side.ask("ListOffsets", 7, {"topics": [{"name": name, "partitions": asked}]})["topics"]
                if not any(each["error_code"] for each in told["partitions"]):
                    break
                assert time.monotonic() < deadline, told
                time.sleep(0.02)

    def topic_id(self, name: str) -> PerSide:
        """Return the id of a topic on each side."""
        return PerSide(*(next(i for i, n in s.names.topics.items() if n == name) for s in (self.ottla, self.kafka)))

    def fill(self, topic: str, partition: int = 0, count: int = 3, **producer: Any) -> PerSide:
        """Append a batch of records a second apart."""
        data = {"name": topic, "partition_data": [{"index": partition, "records": batch(count, **producer)}]}
        return self.ask("Produce", acks=-1, timeout_ms=10000, topic_data=[data])

    def _compare(self, where: str, answers: PerSide) -> Iterator[Difference]:
        mine, theirs = self.ottla.names.normalised(answers.ottla), self.kafka.names.normalised(answers.kafka)
        yield from differences(where, mine, theirs)


def api_key(api: str) -> int:
    """Return the number of an API."""
    key: int = _classes(api)[0].API_KEY
    return key


def of_each(answers: PerSide, choose: Callable[[Any], Any]) -> PerSide:
    """Return a part of both answers."""
    return PerSide(choose(answers.ottla), choose(answers.kafka))


def batch(
    count: int = 3,
    start_ms: int = NOON,
    codec: int = 0,
    producer: PerSide | None = None,
    epoch: int = 0,
    sequence: int = 0,
) -> Any:
    """Return a record batch; with a producer's ids, one for each side."""
    if producer is not None:
        return PerSide(*(_batch(count, start_ms, codec, (each, epoch, sequence)) for each in producer))
    return _batch(count, start_ms, codec, None)


def _batch(count: int, start_ms: int, codec: int, producer: tuple[int, int, int] | None) -> bytes:
    builder = MemoryRecordsBuilder(2, codec, 1 << 20)
    if producer is not None:
        builder.set_producer_state(*producer, is_transactional=False)
    for number in range(count):
        builder.append(start_ms + 1000 * number, b"key %d" % number, b"value %d" % number)
    builder.close()
    return bytes(builder.buffer())


def patched(data: bytes, at: int, new: bytes, checksum: bool = True) -> bytes:
    """Return a batch with other bytes at a place, and with a correct checksum."""
    from kafka.record.util import calc_crc32c

    changed = data[:at] + new + data[at + len(new) :]
    return changed[:17] + calc_crc32c(changed[21:]).to_bytes(4, "big") + changed[21:] if checksum else changed


def _classes(api: str) -> tuple[Any, Any]:
    for module in _MODULES:
        if hasattr(module, f"{api}Request"):
            return getattr(module, f"{api}Request"), getattr(module, f"{api}Response")
    raise AssertionError(f"kafka-python has no {api}")


def _decoded(response_class: Any, reply: bytes, version: int) -> Any:
    # kafka-python's ApiVersions decodes every error in version 0, but only UNSUPPORTED_VERSION comes in version 0.
    return ApiMessage.decode.__func__(response_class, reply, version=version, header=True)


def _built(of: Any, version: int, fields: Answer) -> Answer:
    """Return the schema's objects for plain dictionaries."""
    made = dict(fields)
    for name, value in fields.items():
        field = of._struct.fields[name] if hasattr(of, "_struct") else of.fields[name]
        if not field.for_version_q(version):
            del made[name]
        elif field.is_struct_array() and value is not None:
            made[name] = [field.data_class(version=version, **_built(field.data_class, version, v)) for v in value]
        elif field.is_struct() and value is not None:
            made[name] = field.data_class(version=version, **_built(field.data_class, version, value))
    return made


def _of_side(value: Any, side: int) -> Any:
    """Return a value with each `PerSide` replaced by the value of one side."""
    if isinstance(value, PerSide):
        return value[side]
    if isinstance(value, dict):
        return {key: _of_side(each, side) for key, each in value.items()}
    return [_of_side(each, side) for each in value] if isinstance(value, list) else value


def _keyed(values: list[Any]) -> Any:
    """Return a list without a significant order as a dictionary."""
    if not values or not all(isinstance(each, dict) for each in values):
        return values
    keys = [_identity(each) for each in values]
    return dict(zip(keys, values, strict=True)) if len(set(keys)) == len(keys) else values


def _numbered(values: list[Any]) -> Any:
    """Return a list without a significant order as a dictionary, with elements of one name as one element.

    Their lists are joined; other repeated elements are numbered.
    """
    if not values or not all(isinstance(each, dict) for each in values):
        return values
    found: dict[str, Answer] = {}
    for each in values:
        name = _identity(each)
        inner = [key for key, value in each.items() if isinstance(value, dict) or value == []]
        known = found.get(name)
        if known is not None and len(inner) == 1 and {**known, inner[0]: {}} == {**each, inner[0]: {}}:
            known[inner[0]] = _joined(known[inner[0]], each[inner[0]])
        else:
            _add(found, name, each)
    return found


def _joined(one: Any, other: Any) -> Any:
    if not one or not other:
        return one or other
    for name, each in other.items():
        _add(one, name.partition(" #")[0], each)
    return one


def _add(found: Answer, name: str, value: Any) -> None:
    number = sum(each.partition(" #")[0] == name for each in found)
    found[f"{name} #{number + 1}" if number else name] = value


def _identity(value: Answer) -> str:
    found = [str(value[name]) for name in _IDENTITY if value.get(name) is not None]
    return " ".join(found) or str(value.get("topic_id"))


def differences(where: str, ottla: Any, kafka: Any) -> Iterator[Difference]:
    """Compare two answers field by field."""
    if isinstance(ottla, dict) and isinstance(kafka, dict):
        for key in dict.fromkeys([*ottla, *kafka]):
            if key in ottla and key in kafka:
                yield from differences(f"{where}.{key}", ottla[key], kafka[key])
            else:
                yield Difference(f"{where}.{key}", ottla.get(key, "nothing"), kafka.get(key, "nothing"))
    elif isinstance(ottla, list) and isinstance(kafka, list) and len(ottla) == len(kafka):
        for index, (mine, theirs) in enumerate(zip(ottla, kafka, strict=True)):
            yield from differences(f"{where}[{index}]", mine, theirs)
    elif ottla != kafka:
        yield Difference(where, ottla, kafka)


def unexplained(differences: Sequence[Difference], deviations: Sequence[Deviation]) -> list[str]:
    """Return the differences that no deviation covers, and the deviations without a difference."""
    found = [str(each) for each in differences if not any(d.covers(each) for d in deviations)]
    unused = [d for d in deviations if not any(d.covers(each) for each in differences)]
    return [
        *dict.fromkeys(found),
        *(f"no such deviation: {each.where} {each.ottla!r} {each.kafka!r}" for each in unused),
    ]
