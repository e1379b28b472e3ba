"""Ottla and Apache Kafka 3.9.2: one request to both, over connections of the same name, and the differences."""

import json
import re
import select
import socket
import struct
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import partial
from typing import Any, Final, NamedTuple

from compat_tests.differential.both import CLOSED, Answer, Difference, Names, PerSide, differences
from compat_tests.differential.generated.allowed import is_not_compared
from compat_tests.differential.generated.codec import Codec
from compat_tests.differential.generated.conditions import Sent
from compat_tests.differential.generated.generator import Step
from compat_tests.differential.generated.own import NO_ID, Learned
from compat_tests.hostile.hostile import NOW
from compat_tests.support.brokers import Broker

SILENT: Final[Answer] = {"silent": True}
PATIENCE_S: Final = 30.0
API_VERSIONS, METADATA, PRODUCE, LIST_OFFSETS, JOIN_GROUP, SYNC_GROUP, DESCRIBE_GROUPS = 18, 3, 0, 2, 11, 14, 15
FIND_COORDINATOR, CREATE_TOPICS, INIT_PRODUCER_ID, DESCRIBE_CONFIGS, INCREMENTAL_ALTER_CONFIGS = 10, 19, 22, 32, 44
DESCRIBE_TRANSACTIONS: Final = 65
TRANSACTIONAL_ID_NOT_FOUND: Final = 105
# Requests that wait for other members of the group.
WAITING: Final = (JOIN_GROUP, SYNC_GROUP)
SIDE_LINE: Final = "beside"
_TOPIC_EXISTS: Final = 36
_BETWEEN_LOOKS_S: Final = 0.005
_QUESTIONS_BEHIND: Final = 2
ONE_THREAD: Final = ("num.network.threads=1", "num.io.threads=1")
"""Settings with which Kafka handles the requests of all connections in the order of their arrival."""
# A time of the broker's clock, in contrast to a time from a client.
_SENT_MS: Final = (NOW - 100_000, NOW + 100_000)
_OF_A_SESSION: Final = re.compile(r"s\d+-")
_NAMES: Final = ("name", "topic", "topic_name", "group_id", "transactional_id")


def of_a_clock(value: Any) -> Any:
    """Return a time that may come from a request; for a time of the broker's clock, a word."""
    is_sent = value is None or value < 1_000_000_000_000 or _SENT_MS[0] < value < _SENT_MS[1] or value >= 2**42
    return value if is_sent else "a time"


_WORDS: Final[Mapping[str, Callable[[Any], Any]]] = {
    "timestamp": of_a_clock,
    "max_timestamp": of_a_clock,
    "log_append_time_ms": of_a_clock,
    "last_timestamp": of_a_clock,
    "transaction_start_time_ms": of_a_clock,
    "broker_epoch": lambda value: "an epoch" if value >= 0 else value,
    "producer_id_start": lambda value: "a block" if value >= 0 else value,
}


def without_other_sessions(value: Any, prefix: str) -> Any:
    """Return an answer without elements that earlier sessions left, which have other prefixes.

    Kafka cannot delete a topic with a replica on a broker that does not exist.
    """
    if isinstance(value, dict):
        return {name: without_other_sessions(each, prefix) for name, each in value.items()}
    if isinstance(value, list):
        return [without_other_sessions(each, prefix) for each in value if not _is_of_another(each, prefix)]
    return value


def _is_of_another(value: Any, prefix: str) -> bool:
    names = [str(value.get(name)) for name in _NAMES] if isinstance(value, dict) else ()
    return any(_OF_A_SESSION.match(name) and not name.startswith(prefix) for name in names)


class Exchange(NamedTuple):
    """A request, its form on each side, both answers, and their differences."""

    step: Step
    sent: PerSide
    answers: PerSide
    differences: list[Difference]


class Side:
    """The connections to one broker."""

    def __init__(self, broker: Broker, codec: Codec) -> None:
        self.broker = broker
        self.codec = codec
        data = str(broker.data)
        words: Mapping[str, Callable[[Any], Any]] = {
            **_WORDS,
            "value": lambda value: value and value.replace(data, "its data"),
            "producer_id": self._producer_word,
            "topic_id": lambda value: self.learned.topic_word(value),
            "member_id": lambda value: self.learned.member_word(value),
            "leader": lambda value: self.learned.member_word(value),
        }
        self.names = Names(broker, words, repeats=True)
        self.facts: dict[str, int] = {}
        self.learned: Learned = Learned(self.names, "")
        self._sockets: dict[str, socket.socket] = {}
        versions = self.ask(API_VERSIONS, 0, {})["api_keys"]
        self.versions = {each["api_key"]: (each["min_version"], each["max_version"]) for each in versions}
        about = self.metadata([])
        self.names.cluster_id, self.names.broker_id = about["cluster_id"], about["brokers"][0]["node_id"]

    def _producer_word(self, producer_id: int) -> Any:
        return self.learned.producer_word(producer_id) if producer_id >= 0 else producer_id

    def send(self, key: int, version: int, fields: Answer, line: str) -> None:
        """Send a request over the connection `line`, whose name is also the client's id."""
        if line not in self._sockets:
            self._sockets[line] = socket.create_connection(("127.0.0.1", self.broker.port), PATIENCE_S)
            # A broker accepts a connection some time after it was opened; after this request it reads at once.
            self.ask(API_VERSIONS, 0, {}, line)
        frame = self.codec.request(key, version, line, fields)
        try:
            self._sockets[line].sendall(struct.pack(">i", len(frame)) + frame)
        except ConnectionError:
            self.close(line)

    def receive(self, key: int, version: int, line: str) -> Answer:
        """Return the answer, or the note that there is none."""
        try:
            size = self._exactly(line, 4)
            return self.codec.response(key, version, self._exactly(line, struct.unpack(">i", size)[0]))
        except (ConnectionError, KeyError):
            self.close(line)
            return CLOSED
        except TimeoutError:
            self.close(line)
            return SILENT

    def ask(self, key: int, version: int, fields: Answer, line: str = SIDE_LINE) -> Answer:
        """Send a request that is always answered, and return the answer."""
        self.send(key, version, fields, line)
        answer = self.receive(key, version, line)
        assert answer not in (CLOSED, SILENT), f"{self.broker.name} does not answer API {key}: {answer}"
        return answer

    def metadata(self, names: Sequence[str] | None) -> Answer:
        """Return the metadata of topics, or of all, without creating topics."""
        topics = None if names is None else [{"name": name, "topicId": NO_ID} for name in names]
        wanted = {"topics": topics, "allowAutoTopicCreation": False, "includeTopicAuthorizedOperations": False}
        return self.ask(METADATA, 12, wanted)

    def has_answer(self, line: str) -> bool:
        """Whether a connection has received bytes."""
        connection = self._sockets.get(line)
        return connection is None or bool(select.select([connection], [], [], 0)[0])

    def close_all(self) -> None:
        """Let all connections go."""
        for line in list(self._sockets):
            self.close(line)

    def close(self, line: str) -> None:
        """Close the connection of this name; the next request opens a new one."""
        connection = self._sockets.pop(line, None)
        if connection is not None:
            connection.close()

    def _exactly(self, line: str, count: int) -> bytes:
        data = b""
        while len(data) < count:
            piece = self._sockets[line].recv(count - len(data))
            if not piece:
                raise ConnectionResetError
            data += piece
        return data


class Pair:
    """Two brokers in a session, whose names all have one prefix."""

    def __init__(self, ottla: Broker, kafka: Broker, codec: Codec) -> None:
        self.sides = PerSide(Side(ottla, codec), Side(kafka, codec))
        self.owed: dict[str, tuple[Step, PerSide]] = {}
        self._configured = 0

    def common_versions(self) -> list[tuple[int, int]]:
        """Return each API with each version that both brokers offer."""
        ottla, kafka = (side.versions for side in self.sides)
        return [
            (key, version)
            for key in sorted(ottla.keys() & kafka.keys())
            for version in range(max(ottla[key][0], kafka[key][0]), min(ottla[key][1], kafka[key][1]) + 1)
        ]

    def warm_up(self) -> None:
        """Wait until both brokers assign producer ids, and coordinate, because Kafka begins late with that."""
        for side in self.sides:
            self._wait(partial(self._is_warm, side), f"{side.broker.name}: producer ids, groups and transactions")

    def _is_warm(self, side: Side) -> bool:
        producer = {"transactionalId": None, "transactionTimeoutMs": 1, "producerId": -1, "producerEpoch": -1}
        for kind in (0, 1):
            side.ask(FIND_COORDINATOR, 4, {"keyType": kind, "coordinatorKeys": ["any"]})
        nobody = {"groups": ["any"], "includeAuthorizedOperations": False}
        (group,) = side.ask(DESCRIBE_GROUPS, 5, nobody)["groups"]
        (transaction,) = side.ask(DESCRIBE_TRANSACTIONS, 0, {"transactionalIds": ["any"]})["transaction_states"]
        codes = side.ask(INIT_PRODUCER_ID, 4, producer)["error_code"], group["error_code"], transaction["error_code"]
        return codes == (0, 0, TRANSACTIONAL_ID_NOT_FOUND)

    def begin(self, prefix: str) -> None:
        """Begin a session with new connections and names."""
        self.close()
        for side in self.sides:
            side.learned = Learned(side.names, prefix, side.facts)

    def close(self) -> None:
        """Let all connections go."""
        self.owed.clear()
        for side in self.sides:
            side.close_all()

    def ask(self, step: Step) -> Iterator[Exchange]:
        """Send a request to both. Yield its exchange, and those of waiting requests that are answered now."""
        sent = PerSide(*(side.learned.value(step.fields) for side in self.sides))
        self._give_up(step, sent)
        for side, fields in zip(self.sides, sent, strict=True):
            side.send(step.key, step.version, fields, step.line)
        if step.key == PRODUCE and step.fields["acks"] == 0:
            # There is no response to it, but the broker may close the connection.
            for side in self.sides:
                side.send(API_VERSIONS, 0, {}, step.line)
            answers = self._received(Step(API_VERSIONS, 0, {}, step.line))
            yield self._compared(step, sent, PerSide(*(each if each in (CLOSED, SILENT) else {} for each in answers)))
            return
        if step.key in WAITING:
            self.owed[step.line] = step, sent
            yield from self._collect(step)
        else:
            answers = self._received(step)
            self._learn(step, sent, answers)
            yield self._compared(step, sent, answers)

    def _collect(self, step: Step) -> Iterator[Exchange]:
        """Yield exchanges of members of groups after both sides have answered the same requests."""
        deadline = time.monotonic() + PATIENCE_S
        for side in self.sides:
            # A broker with one thread has handled the request before it answers these, one by one.
            for _ in range(_QUESTIONS_BEHIND):
                self._state(side, step)
        while True:
            states = [self._state(side, step) for side in self.sides]
            answered = [[line for line in self.owed if side.has_answer(line)] for side in self.sides]
            if (states[0] == states[1] and answered[0] == answered[1]) or time.monotonic() > deadline:
                break
            time.sleep(_BETWEEN_LOOKS_S)
        found = []
        for line in sorted({*answered[0], *answered[1]}):
            owed, sent = self.owed.pop(line)
            found.append((owed, sent, self._received(owed)))
        # A leader's answer has members whose own answers come later.
        for each in found:
            self._learn(*each)
        for each in found:
            yield self._compared(*each)

    def _state(self, side: Side, step: Step) -> str:
        wanted = {"groups": [side.learned.value(step.fields["groupId"])], "includeAuthorizedOperations": False}
        (group,) = side.ask(DESCRIBE_GROUPS, 5, wanted)["groups"]
        return f"{group['group_state']} {len(group['members'])}"

    def _received(self, step: Step) -> PerSide:
        return PerSide(*(side.receive(step.key, step.version, step.line) for side in self.sides))

    def _give_up(self, step: Step, sent: PerSide) -> None:
        """Close the connections that wait only for answers that are not compared."""
        for line, (owed, earlier) in list(self.owed.items()):
            if is_not_compared(Sent(owed.api, earlier.kafka), Sent(step.api, sent.kafka)):
                del self.owed[line]
                for side in self.sides:
                    side.close(line)

    def _learn(self, step: Step, sent: PerSide, answers: PerSide) -> None:
        for side, fields, answer in zip(self.sides, sent, answers, strict=True):
            side.learned.learn(step.api, fields, step.fields, step.line, answer)

    def _compared(self, step: Step, sent: PerSide, answers: PerSide) -> Exchange:
        ottla, kafka = (
            side.names.normalised(without_other_sessions(answer, side.learned.prefix))
            for side, answer in zip(self.sides, answers, strict=True)
        )
        return Exchange(step, sent, answers, list(differences(f"{step.api} v{step.version}", ottla, kafka)))

    # Changes that brokers apply after their answer

    def settle_topics(self, short_names: Sequence[str], counts: Mapping[str, int]) -> None:
        """Wait until each of these topics has leaders, or can be created; learn their ids.

        Topics in `counts`, by their full names, must have so many partitions.
        """
        for side in self.sides:
            names = [side.learned.prefix + each for each in short_names]
            self._wait(partial(self._are_settled, side, names, counts), f"{side.broker.name}: {names}")

    def _are_settled(self, side: Side, names: Sequence[str], counts: Mapping[str, int]) -> bool:
        answer = side.metadata(names)
        for topic in answer["topics"]:
            if len(topic["partitions"]) < counts.get(topic["name"], 0):
                return False
            if topic["error_code"] == 3:
                creation = {"name": topic["name"], "numPartitions": 1, "replicationFactor": 1}
                wanted = {"topics": [{**creation, "assignments": [], "configs": []}], "timeoutMs": 1000}
                (created,) = side.ask(CREATE_TOPICS, 4, {**wanted, "validateOnly": True})["topics"]
                if created["error_code"] == _TOPIC_EXISTS:
                    return False
            elif topic["error_code"] or not self._is_led(side, topic):
                return False
        side.learned.learn("Metadata", {}, {}, SIDE_LINE, answer)
        return True

    def _is_led(self, side: Side, topic: Answer) -> bool:
        if any(each["error_code"] for each in topic["partitions"]):
            return False
        wanted = [
            {"partitionIndex": index, "currentLeaderEpoch": -1, "timestamp": -1}
            for index in range(len(topic["partitions"]))
        ]
        topics = [{"name": topic["name"], "partitions": wanted}]
        (told,) = side.ask(LIST_OFFSETS, 7, {"replicaId": -1, "isolationLevel": 0, "topics": topics})["topics"]
        return not any(each["error_code"] for each in told["partitions"])

    def settle_configs(self) -> None:
        """Wait for all changes of configs, by making one more, because they take effect in order."""
        self._configured += 1
        value = str(1_000_000 + self._configured)
        change = {"name": "max.connections", "configOperation": 0, "value": value}
        resource = {"resourceType": 4, "resourceName": "1"}
        for side in self.sides:
            wanted = {"resources": [{**resource, "configs": [change]}], "validateOnly": False}
            side.ask(INCREMENTAL_ALTER_CONFIGS, 1, wanted)
            self._wait(partial(self._is_told, side, value), f"{side.broker.name}: max.connections")

    def _is_told(self, side: Side, value: str) -> bool:
        resource = {"resourceType": 4, "resourceName": "1", "configurationKeys": ["max.connections"]}
        options = {"includeSynonyms": False, "includeDocumentation": False}
        return value in json.dumps(side.ask(DESCRIBE_CONFIGS, 4, {"resources": [resource], **options}))

    def settle_transaction(self, transactional_id: Any) -> None:
        """Wait until no partition of a transactional id waits for a marker."""
        for side in self.sides:
            name = side.learned.value(transactional_id)
            self._wait(partial(self._is_marked, side, name), f"{side.broker.name}: {name}")

    def _is_marked(self, side: Side, name: str) -> bool:
        (found,) = side.ask(DESCRIBE_TRANSACTIONS, 0, {"transactionalIds": [name]})["transaction_states"]
        return not found["transaction_state"].startswith("Prepare")

    def _wait(self, is_so: Callable[[], bool], what: str) -> None:
        deadline = time.monotonic() + PATIENCE_S
        while not is_so():
            assert time.monotonic() < deadline, f"not settled: {what}"
            time.sleep(_BETWEEN_LOOKS_S)
