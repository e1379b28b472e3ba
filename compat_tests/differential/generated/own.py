"""Values of requests that differ between brokers: ids of members, topics and producers, epochs, ports, directories.

A generated request is data, so that it can be sent again, alone or after fewer others. An `Own` stands for such a value
until the request is sent. Then it becomes a value from this broker's answers, or one that no broker has.
"""

import base64
import hashlib
import struct
from collections import defaultdict
from collections.abc import Mapping
from typing import Any, Final, NamedTuple

from compat_tests.differential.both import UUID, Answer, Names
from compat_tests.hostile import hostile

NO_ID: Final = "AAAAAAAAAAAAAAAAAAAAAA"
UNKNOWN_ID: Final = "AAAAAAAAAAAAAAAAAAAACQ"
MEMBER_ID_REQUIRED: Final = 79
# In a batch: the position of its attributes, and two of their bits.
_ATTRIBUTES_AT: Final = 21
_TRANSACTIONAL, _CONTROL = 0x10, 0x20


class Own(NamedTuple):
    """A value that differs between sides: its kind, its name, and its number or an increment."""

    kind: str
    name: str = ""
    number: int = 0


class Records(NamedTuple):
    """A record batch: valid, or damaged as in `hostile.BATCHES`.

    `producer` is the number of a known producer, -1 is none; `epoch` is added to its epoch.
    """

    damage: str = ""
    size: int = 1
    codec: int = 0
    start_ms: int = hostile.NOW
    producer: int = -1
    epoch: int = 0
    sequence: int = 0
    key: bytes | None = b"k"
    transactional: bool = False
    control: bool = False

    @property
    def is_sound(self) -> bool:
        """Whether it is valid in every version."""
        return not self.damage and not self.control and self.codec != hostile.ZSTD


def id_of_nothing(name: str) -> str:
    """Return a topic id that no broker has assigned, in Kafka's JSON; another one for each name."""
    return base64.urlsafe_b64encode(hashlib.md5(name.encode(), usedforsecurity=False).digest()).decode().rstrip("=")


class Learned:
    """The values in one broker's answers of a session. All names of a session begin with its prefix."""

    def __init__(self, names: Names, prefix: str, facts: Mapping[str, int] | None = None) -> None:
        """`facts` are numbers that are in no answer, such as epochs."""
        self.names = names
        self.prefix = prefix
        self.facts = facts or {}
        self.partitions: dict[str, int] = {}
        self.members: defaultdict[str, list[str]] = defaultdict(list)
        """Member ids by group."""
        self.generations: dict[str, int] = {}
        self.producers: list[tuple[int, int]] = []
        self.transactional: dict[int, str] = {}
        """The transactional ids of producers, by the numbers of these, without the prefix."""
        self.fetch_sessions: dict[str, tuple[int, int]] = {}

    def value(self, wanted: Any) -> Any:
        """Return a value with each `Own` and `Records` replaced by this broker's value."""
        if isinstance(wanted, dict):
            return {key: self.value(each) for key, each in wanted.items()}
        if isinstance(wanted, list):
            return [self.value(each) for each in wanted]
        if isinstance(wanted, Records):
            return self._batch(wanted)
        return getattr(self, f"_{wanted.kind}")(wanted.name, wanted.number) if isinstance(wanted, Own) else wanted

    def _topic(self, name: str, number: int) -> str:
        return (self.prefix + name).ljust(number, "x")

    _group = _transactional_id = _topic

    def _topic_id(self, name: str, number: int) -> str:
        full = self.prefix + name
        found = next((key for key, known in reversed(self.names.topics.items()) if known == full), None)
        return found or id_of_nothing(full)

    def _member(self, group: str, number: int) -> str:
        known = self.members[self.prefix + group]
        return known[number % len(known)] if known else "nobody"

    def topic_word(self, topic_id: str) -> str:
        """Return the common word of both sides for a topic id; a topic that is created again has another one."""
        name = self.names.topics.get(topic_id)
        known = [each for each, of in self.names.topics.items() if of == name]
        return f"id {topic_id}" if name is None else f"id {known.index(topic_id)} of {name}"

    def member_word(self, member_id: str) -> str:
        """Return the common word of both sides for a member: its number in its group, or its id without random part."""
        for group, known in self.members.items():
            if member_id in known:
                return f"member {known.index(member_id)} of {group}"
        return UUID.sub("ID", member_id)

    def has_members(self, group: str) -> bool:
        """Whether this group has assigned a member id."""
        return bool(self.members[self.prefix + group])

    def _generation(self, group: str, number: int) -> int:
        return self.generations.get(self.prefix + group, 0) + number

    def _producer(self, name: str, number: int) -> int:
        return self._identity(number)[0]

    def _producer_epoch(self, name: str, number: int) -> int:
        return self._identity(number)[1] + int(name or 0)

    def _identity(self, number: int) -> tuple[int, int]:
        return self.producers[number % len(self.producers)] if self.producers else (4711, 0)

    def producer_word(self, producer_id: int) -> str:
        """Return the common word of both sides for a producer."""
        known = [each for each, _ in self.producers]
        return f"producer {known.index(producer_id)}" if producer_id in known else "a producer"

    def _fetch_session(self, line: str, number: int) -> int:
        return self.fetch_sessions.get(line, (0, 0))[0]

    def _fetch_epoch(self, line: str, number: int) -> int:
        return self.fetch_sessions.get(line, (0, 0))[1] + number

    def _fact(self, name: str, number: int) -> int:
        return self.facts[name] + number

    def _port(self, name: str, number: int) -> int:
        return self.names.broker.port

    def _log_dir(self, name: str, number: int) -> str:
        return str(self.names.broker.data / "log")

    def _subscription(self, name: str, number: int) -> str:
        topic = (self.prefix + name).encode()
        said = struct.pack(">hih", 0, 1, len(topic)) + topic + struct.pack(">i", -1)
        return base64.b64encode(said).decode()

    def _batch(self, wanted: Records) -> str | None:
        if wanted.damage:
            damaged = hostile.BATCHES[wanted.damage][0]
            return None if damaged is None else base64.b64encode(damaged).decode()
        of = (-1, -1, -1)
        if wanted.producer >= 0:
            producer_id, epoch = self._identity(wanted.producer)
            of = (producer_id, epoch + wanted.epoch, wanted.sequence)
        values = [b"value %d" % number for number in range(wanted.size)]
        made: bytes | bytearray = hostile.batch(
            *values,
            key=wanted.key,
            timestamp=wanted.start_ms,
            codec=wanted.codec,
            producer=of,
            transactional=wanted.transactional,
        )
        if wanted.control:
            made = hostile.patched(
                _ATTRIBUTES_AT, ">h", _CONTROL | _TRANSACTIONAL * wanted.transactional, bytearray(made)
            )
        return base64.b64encode(made).decode()

    def learn(self, api: str, sent: Answer, fields: Answer, line: str, answer: Answer) -> None:
        """Remember the values of an answer. `fields` are of the generated request, `sent` of the one that was sent."""
        self.names.learn(answer)
        code = answer.get("error_code")
        if api == "JoinGroup" and code in (0, MEMBER_ID_REQUIRED):
            group = sent["groupId"]
            if answer["member_id"] not in self.members[group]:
                self.members[group].append(answer["member_id"])
            if code == 0:
                self.generations[group] = answer["generation_id"]
        elif api == "InitProducerId" and code == 0:
            name = fields.get("transactionalId")
            if isinstance(name, Own):
                self.transactional[len(self.producers)] = name.name
            self.producers.append((answer["producer_id"], answer["producer_epoch"]))
        elif api == "Fetch" and "session_id" in answer and code == 0:
            _, epoch = self.fetch_sessions.get(line, (0, 0))
            asked = fields["sessionEpoch"]
            goes_on = isinstance(asked, Own) and asked.kind == "fetch_epoch"
            self.fetch_sessions[line] = (answer["session_id"], epoch + 1 if goes_on else 1)
        elif api == "Metadata":
            for topic in answer.get("topics", ()):
                self._learn_topic(topic)

    def _learn_topic(self, topic: Answer) -> None:
        name = topic["name"] or ""
        if name.startswith(self.prefix):
            short = name.removeprefix(self.prefix)
            self.partitions.pop(short, None)
            if not topic["error_code"]:
                self.partitions[short] = len(topic["partitions"])
