"""Requests from Kafka's specification, from pools of values, and from the state of the session."""

import random
from collections.abc import Callable, Mapping
from typing import Any, Final, NamedTuple

from compat_tests.differential.both import Answer
from compat_tests.differential.generated import pools
from compat_tests.differential.generated.allowed import is_not_asked
from compat_tests.differential.generated.own import NO_ID, Learned, Own, Records
from compat_tests.differential.generated.pools import Configs, Pool
from compat_tests.differential.generated.specification import Field, requests

LINES: Final = ("a", "b", "c", "d", "e")
TOPICS: Final = ("t0", "t1", "t2", "t3")
MISSING: Final = ("m0", "m1")
GROUPS: Final = ("g0", "g1", "g2")
MOST_PARTITIONS: Final = 6
MOST_DRAWS: Final = 100
# The share of odd values: in most requests none, in some a few, in a few many.
ODDITY: Final = (0.0, 0.0, 0.0, 0.04, 0.04, 0.15, 0.4)


class Step(NamedTuple):
    """A request of a session, and its connection, whose name is also the client's id."""

    key: int
    version: int
    fields: Answer
    line: str

    @property
    def api(self) -> str:
        """Return the name of the API."""
        return requests()[self.key].name


class Scene:
    """The context of one request. Its topic and its group are chosen anew for each element of an array."""

    def __init__(self, random: random.Random, learned: Learned, counters: dict[object, int], version: int = 0) -> None:
        self.version = version
        self.random = random
        self.learned = learned
        self.counters = counters
        self.oddity = random.choice(ODDITY)
        self.line = random.choice(LINES)
        self.topic = self.any_topic()
        self.group = random.choice(GROUPS)
        self.producer = self.any_producer()
        self.is_simple = random.random() < 0.2
        self.goes_on = self.line in learned.fetch_sessions and random.random() < 0.6

    def any_topic(self) -> str:
        """Return a topic that exists, or one that does not."""
        known = sorted(self.learned.partitions)
        return self.random.choice(known if known and self.random.random() > 0.08 else (*TOPICS, *MISSING))

    def any_producer(self) -> int:
        """Return the number of a producer: mostly one of the last ones with a transactional id."""
        known = list(self.learned.transactional)[-3:]
        return self.random.choice(known) if known and self.random.random() < 0.9 else 0

    def is_odd(self) -> bool:
        """Whether the next value is an odd one."""
        return self.random.random() < self.oddity

    def choose(self, pool: Pool) -> Any:
        """Return a value of a pool."""
        values = pool.odd if pool.odd and self.is_odd() else pool.good
        value = self.random.choice(values)
        return value(self) if callable(value) else value


Adjustment = Callable[[Answer, Scene], None]
"""Changes the fields of a request so that they fit together."""


class Generator:
    """Makes requests from a seed."""

    def __init__(self, seed: str, learned: Learned, more: Mapping[str, Adjustment] | None = None) -> None:
        """`more` are additional adjustments by the names of APIs."""
        self._random = random.Random(seed)
        self._learned = learned
        self._counters: dict[object, int] = {}
        self._adjustments = {**ADJUSTMENTS, **(more or {})}

    def request(self, key: int, version: int) -> Step:
        """Return a request of this API and version that is not one of `allowed.NOT_ASKED`."""
        for _ in range(MOST_DRAWS):
            step = self._draw(key, version)
            if not is_not_asked(step.api, step.fields):
                return step
        raise AssertionError(f"no request of API {key} version {version} may be asked")

    def _draw(self, key: int, version: int) -> Step:
        scene = Scene(self._random, self._learned, self._counters, version)
        request = requests()[key]
        fields = self._struct(request.name, request.fields(version), scene)
        adjust = self._adjustments.get(request.name)
        if adjust is not None:
            adjust(fields, scene)
        if request.is_flexible(version) and scene.is_odd():
            fields["unknownTag"] = self._random.choice((9, 99, 10_000))
        return Step(key, version, fields, scene.line)

    def _struct(self, path: str, fields: tuple[Field, ...], scene: Scene) -> Answer:
        return {each.name: self._value(f"{path}.{each.name}", each, scene) for each in fields}

    def _value(self, path: str, field: Field, scene: Scene) -> Any:
        if field.nullable and field.type not in ("string", "records") and self._random.random() < 0.15:
            return None
        if field.type.startswith("[]"):
            return self._array(path, field, scene)
        if field.fields:
            return self._struct(path, field.fields, scene)
        value = scene.choose(pool_of(path, field))
        if field.nullable and scene.is_odd() and field.type == "string":
            return None
        return "" if value is None and not field.nullable else value

    def _array(self, path: str, field: Field, scene: Scene) -> list[Any]:
        found = []
        count = self._random.choice((1, 1, 1, 1, 2, 2, 3, 0 if scene.is_odd() else 1))
        makers: dict[str, Callable[[Scene, Answer], Answer]] = {"configs": of_resource, "resources": resource}
        for _ in range(count):
            if field.fields:
                kept = scene.topic, scene.group
                scene.topic = scene.any_topic() if _names_a_topic(field) else scene.topic
                scene.group = self._random.choice(GROUPS) if field.name == "groups" else scene.group
                element = self._struct(path, field.fields, scene)
                found.append(makers.get(field.name, _unchanged)(scene, element))
                scene.topic, scene.group = kept
            else:
                scene.group = self._random.choice(GROUPS)
                found.append(scene.choose(pool_of(path, field)))
        if found and scene.is_odd():
            found.append(found[0])
        return found


def pool_of(path: str, field: Field) -> Pool:
    """Return the values of a field."""
    api, _, inner = path.partition(".")
    names = (path, f"{api}.{inner.rpartition('.')[2]}")
    found = next((pools.BY_NAME[name] for name in (*names, field.name) if name in pools.BY_NAME), None)
    return found or pools.BY_ENTITY.get(field.entity) or pools.BY_TYPE[field.type.removeprefix("[]")]


def _names_a_topic(field: Field) -> bool:
    return any(each.entity == "topicName" or each.name == "topicId" for each in field.fields)


def _unchanged(scene: Scene, element: Answer) -> Answer:
    return element


# Structs whose fields belong together


def resource(scene: Scene, element: Answer) -> Answer:
    """Return a resource with configs of its type."""
    kind = scene.random.choice((pools.TOPIC,) * 7 + (pools.BROKER,) * 3 + (pools.LOGGER,))
    names: Mapping[int, Pool] = {
        pools.TOPIC: Pool((pools.topic_name,), pools.BY_ENTITY["topicName"].odd),
        pools.BROKER: Pool(("1", ""), ("9", "x")),
        pools.LOGGER: Pool(("1",), ("9", "x", "")),
    }
    scene.topic = scene.any_topic()
    element |= {"resourceType": kind, "resourceName": scene.choose(names[kind])}
    if scene.is_odd():
        element["resourceType"] = scene.random.choice((0, 1, 3, 7, -1, pools.METRICS, 32))
    table = {pools.TOPIC: pools.TOPIC_CONFIGS, pools.BROKER: pools.BROKER_CONFIGS, pools.LOGGER: pools.LOGGER_CONFIGS}
    if "configurationKeys" in element:
        if element["configurationKeys"] is not None or kind != pools.TOPIC:
            element["configurationKeys"] = [name for name, _, _ in _some(scene, table[kind])]
    else:
        element["configs"] = [_config(scene, each, *entry) for each, entry in _paired(scene, element, table[kind])]
    return element


def of_resource(scene: Scene, element: Answer) -> Answer:
    """Return a config of a topic in CreateTopics; `resource` makes the configs of resources."""
    entry = scene.random.choice(pools.TOPIC_CONFIGS)
    return _config(scene, element, *entry)


def _paired(scene: Scene, element: Answer, table: Configs) -> list[tuple[Answer, Any]]:
    return list(zip(element["configs"], _some(scene, table, len(element["configs"])), strict=False))


def _some(scene: Scene, table: Configs, count: int = 2) -> list[Any]:
    return scene.random.sample(table, min(count, len(table)))


def _config(scene: Scene, element: Answer, name: str, good: Any, odd: Any) -> Answer:
    element = dict(element) | {"name": name, "value": scene.choose(Pool(good, odd) if good else Pool(odd))}
    if not good and scene.oddity == 0:
        element |= {"name": "retention.ms", "value": pools.LONG_MS}
    if "configOperation" in element:
        element["configOperation"] = scene.choose(Pool((0, 0, 0, 1), (2, 3, 4, -1)))
    return element


def create_topics(fields: Answer, scene: Scene) -> None:
    """Give a topic either counts or an assignment, and few partitions."""
    taken = set()
    for topic in fields["topics"]:
        if scene.random.random() < 0.7:
            free = [each for each in TOPICS if each not in scene.learned.partitions and each not in taken]
            topic["name"] = Own("topic", scene.random.choice(free or TOPICS))
        taken.add(topic["name"].name if isinstance(topic["name"], Own) else "")
        numbers = {
            "numPartitions": scene.choose(Pool((1, 2, 3), (0, -1, -2, pools.MIN_INT))),
            "replicationFactor": scene.choose(Pool((1,), (0, -1, -2, 2, 2**15 - 1))),
        }
        is_assigned = scene.random.random() < 0.2
        topic |= {"numPartitions": -1, "replicationFactor": -1} if is_assigned and not scene.is_odd() else numbers
        wanted = range(scene.random.choice((1, 2)))
        topic["assignments"] = [
            {"partitionIndex": scene.choose(Pool((index,), (0, 2, -1))), "brokerIds": brokers(scene)}
            for index in (wanted if is_assigned else ())
        ]
        if any(each["brokerIds"] != [1] for each in topic["assignments"]):
            # Kafka creates a topic without a possible leader, and waits for a leader.
            fields["timeoutMs"] = 0
        if scene.random.random() < 0.5:
            topic["configs"] = []


def brokers(scene: Scene) -> list[int]:
    """Return the brokers of replicas."""
    found: list[int] = scene.choose(Pool(([1],), ([], [1, 1], [9], [-1], [1, 9])))
    return found


def create_partitions(fields: Answer, scene: Scene) -> None:
    """Add one partition, up to a limit."""
    for topic in fields["topics"]:
        now = scene.learned.partitions.get(topic["name"].name if isinstance(topic["name"], Own) else "", 1)
        topic["count"] = scene.choose(Pool((min(now + 1, MOST_PARTITIONS),), (now, now - 1, 0, -1, pools.MIN_INT)))
        if scene.random.random() < 0.7:
            topic["assignments"] = None
        elif topic["assignments"] is not None:
            topic["assignments"] = [{"brokerIds": brokers(scene)} for _ in topic["assignments"]]
    if any(not isinstance(each["name"], Own) for each in fields["topics"]):
        fields["topics"] = fields["topics"][:1]


def metadata(fields: Answer, scene: Scene) -> None:
    """Identify most topics by name only, or by id only."""
    for topic in fields["topics"] or ():
        if "topicId" in topic:
            if scene.is_odd():
                continue
            topic |= {"topicId": NO_ID} if scene.random.random() < 0.6 else {"name": None}


def delete_topics(fields: Answer, scene: Scene) -> None:
    """Identify most topics by name only, or by id only."""
    metadata(fields if "topics" in fields else {"topics": None}, scene)


def join_group(fields: Answer, scene: Scene) -> None:
    """Make half of the joining members new."""
    if scene.random.random() < 0.5:
        fields["memberId"] = ""
    names = [each["name"] for each in fields["protocols"]]
    if len(set(names)) != len(names):
        fields["protocols"] = fields["protocols"][:1]


def sync_group(fields: Answer, scene: Scene) -> None:
    """Make the assignments those of members, each member once."""
    chosen = {repr(each["memberId"]): each for each in fields["assignments"]}
    fields["assignments"] = list(chosen.values())


def init_producer_id(fields: Answer, scene: Scene) -> None:
    """Make most producers new."""
    if "producerId" in fields and scene.random.random() < 0.7:
        fields |= {"producerId": -1, "producerEpoch": -1}


def produce(fields: Answer, scene: Scene) -> None:
    """Give records of a transaction their transactional id."""
    if "transactionalId" in fields and not scene.is_odd():
        batches = [each["records"] for topic in fields["topicData"] for each in topic["partitionData"]]
        numbers = [each.producer for each in batches if isinstance(each, Records) and each.transactional]
        if numbers:
            name = scene.learned.transactional.get(numbers[0])
            fields["transactionalId"] = Own("transactional_id", name) if name else None


def add_partitions_to_txn(fields: Answer, scene: Scene) -> None:
    """Name each transaction once."""
    if "transactions" in fields:
        fields["transactions"] = list({repr(each["transactionalId"]): each for each in fields["transactions"]}.values())


def write_txn_markers(fields: Answer, scene: Scene) -> None:
    """Send one marker, for each partition once."""
    del fields["markers"][1:]
    for marker in fields["markers"]:
        marker["topics"] = list({repr(each["name"]): each for each in marker["topics"]}.values())
        for topic in marker["topics"]:
            topic["partitionIndexes"] = list(dict.fromkeys(topic["partitionIndexes"]))


def reassignments(fields: Answer, scene: Scene) -> None:
    """Set the replicas to the current ones."""
    for topic in fields["topics"]:
        for partition in topic["partitions"]:
            partition["replicas"] = scene.random.choice((None, brokers(scene)))


ADJUSTMENTS: Final[Mapping[str, Adjustment]] = {
    "CreateTopics": create_topics,
    "CreatePartitions": create_partitions,
    "Metadata": metadata,
    "DeleteTopics": delete_topics,
    "JoinGroup": join_group,
    "SyncGroup": sync_group,
    "InitProducerId": init_producer_id,
    "Produce": produce,
    "AddPartitionsToTxn": add_partitions_to_txn,
    "WriteTxnMarkers": write_txn_markers,
    "AlterPartitionReassignments": reassignments,
}
