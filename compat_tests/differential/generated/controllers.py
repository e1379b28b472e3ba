"""Requests that only brokers send: from a controller to a broker, and from brokers to the controller.

They stop brokers, change what these lead, or end the rule of a controller. So they go to brokers of their own, each on
a ZooKeeper of its own, which tells the epochs that these requests need. Brokers that a request has spoiled for other
sessions give way to fresh ones.
"""

import contextlib
import tempfile
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, Final

from kazoo.client import KazooClient

from compat_tests.differential.both import Answer
from compat_tests.differential.generated.codec import Codec
from compat_tests.differential.generated.generator import Scene, metadata
from compat_tests.differential.generated.own import NO_ID, UNKNOWN_ID, Own
from compat_tests.differential.generated.pair import ONE_THREAD, Exchange, Pair, Side
from compat_tests.differential.generated.pools import MAX_INT, MIN_INT, Pool
from compat_tests.differential.generated.session import OF_BROKERS, Kind
from compat_tests.support import zookeeper
from compat_tests.support.brokers import Broker, Ottla, QuickKafka

ME, NOBODY = 1, 9
RACKS_FROM_VERSION, LISTENERS_FROM_VERSION = 2, 3
UPDATE_METADATA, LATEST = 6, 8
CONTROLLER_EPOCH, BROKER_EPOCH = "controller epoch", "broker epoch"
FROM_A_CONTROLLER: Final = ("LeaderAndIsr", "StopReplica", "UpdateMetadata")
SETTINGS: Final = (
    *ONE_THREAD,
    f"broker.id={ME}",
    "zookeeper.session.timeout.ms=18000",
    "offsets.topic.num.partitions=1",
    "offsets.topic.replication.factor=1",
    "transaction.state.log.num.partitions=1",
    "transaction.state.log.replication.factor=1",
    "transaction.state.log.min.isr=1",
    "log.cleaner.enable=false",
    "log.retention.ms=-1",
    # Disabled, because it would change leaders by itself.
    "auto.leader.rebalance.enable=false",
)

_HEAD: Final = {
    "controllerId": Pool((ME,), (NOBODY, -1)),
    "controllerEpoch": Pool(
        (Own("fact", CONTROLLER_EPOCH),),
        (*(Own("fact", CONTROLLER_EPOCH, -1),) * 8, -1, MIN_INT, Own("fact", CONTROLLER_EPOCH, 1)),
    ),
    "brokerEpoch": Pool(
        (Own("fact", BROKER_EPOCH),),
        (Own("fact", BROKER_EPOCH, -1), Own("fact", BROKER_EPOCH, 1), -1, 0),
    ),
    "isKRaftController": Pool((False,), (True,)),
    "type": Pool((0,), (1, 2, 7)),
}
_REPLICAS: Final = Pool(([ME],), ([], [NOBODY], [ME, NOBODY], [NOBODY, ME], [ME, ME], [-1]))
_OTHERS: Final = Pool(([],), ([ME], [NOBODY], [-1]))
_STATE: Final = {
    "controllerEpoch": _HEAD["controllerEpoch"],
    "leader": Pool((ME,), (NOBODY, -1, -2, MAX_INT)),
    "isr": _REPLICAS,
    "replicas": _REPLICAS,
    "addingReplicas": _OTHERS,
    "removingReplicas": _OTHERS,
    "offlineReplicas": _OTHERS,
    "partitionEpoch": Pool((0, 0, 1), (-1, 9)),
    "zkVersion": Pool((0, 1), (-1, 9)),
    "leaderRecoveryState": Pool((0,), (1, 7)),
}


def _fill(element: Answer, pools: dict[str, Pool], scene: Scene) -> None:
    """Set the fields of an element to values of their pools."""
    element.update((name, scene.choose(pool)) for name, pool in pools.items() if name in element)


def _states(fields: Answer) -> Iterator[tuple[Any, Answer]]:
    """Yield the name of the topic and the state of each partition."""
    for state in fields.get("ungroupedPartitionStates", ()):
        yield state["topicName"], state
    for topic in fields.get("topicStates", ()):
        for state in topic["partitionStates"]:
            yield topic["topicName"], state


def _leader_epoch(topic: Any, scene: Scene) -> int:
    """Return a leader epoch: mostly the next one of a topic in this session, or the current one."""
    known = scene.counters[topic] = scene.counters.get(topic, 0) + scene.random.choice((0, 1, 1, 1))
    epoch: int = scene.choose(Pool((known,), (0, -1, -2, known + 5, MIN_INT)))
    return epoch


def itself(version: int) -> Answer:
    """Return this broker for a version of UpdateMetadata."""
    if version == 0:
        return {"id": ME, "v0Host": "127.0.0.1", "v0Port": Own("port")}
    endpoint = {"port": Own("port"), "host": "127.0.0.1", "securityProtocol": 0}
    if version >= LISTENERS_FROM_VERSION:
        endpoint["listener"] = "PLAINTEXT"
    found = {"id": ME, "endpoints": [endpoint]}
    return found if version < RACKS_FROM_VERSION else {**found, "rack": None}


def _rename(value: Any) -> None:
    """Give odd names of topics this session's prefix, because other sessions would see their topics, too."""
    if isinstance(value, dict):
        for name in ("topicName", "name"):
            if isinstance(value.get(name), str):
                value[name] = Own("topic", value[name])
    for each in value.values() if isinstance(value, dict) else value if isinstance(value, list) else ():
        _rename(each)


def _give_ids(topics: list[Answer]) -> None:
    """Give all topics different ids."""
    for topic in topics:
        if "topicId" in topic and (topic["topicId"] != NO_ID or len(topics) > 1):
            name = topic["topicName"].name
            topic["topicId"] = Own("topic_id", f"another {name}" if topic["topicId"] == UNKNOWN_ID else name)


def _without_repetitions(fields: Answer) -> None:
    """Remove repeated topics and partitions."""
    for name in ("ungroupedPartitionStates", "ungroupedPartitions"):
        if name in fields:
            fields[name] = list(
                {(repr(each["topicName"]), each["partitionIndex"]): each for each in fields[name]}.values()
            )
    for name in ("topicStates", "topics"):
        if name in fields:
            fields[name] = list({repr(each.get("topicName", each.get("name"))): each for each in fields[name]}.values())
        for topic in fields.get(name, ()):
            if "partitionIndexes" in topic:
                topic["partitionIndexes"] = list(dict.fromkeys(topic["partitionIndexes"]))
            else:
                states = {each["partitionIndex"]: each for each in topic["partitionStates"]}
                topic["partitionStates"] = list(states.values())


def of_controller(fields: Answer, scene: Scene) -> None:
    """Make this broker mostly the only replica and leader, and the sender the real controller."""
    _rename(fields)
    _give_ids(fields.get("topicStates", []))
    if scene.random.random() < 0.95:
        _without_repetitions(fields)
    _fill(fields, _HEAD, scene)
    for topic, state in _states(fields):
        _fill(state, _STATE, scene)
        if "leaderEpoch" in state:
            state["leaderEpoch"] = _leader_epoch(topic, scene)
    if "liveBrokers" in fields:
        me = itself(scene.version)
        fields["liveBrokers"] = scene.choose(Pool(([me],), ([], [me, {**me, "id": NOBODY}])))
    if "liveLeaders" in fields:
        leaders = [{"brokerId": ME, "hostName": "127.0.0.1", "port": Own("port")}]
        fields["liveLeaders"] = scene.choose(Pool((leaders, []), ([{**leaders[0], "brokerId": NOBODY}],)))


def alter_partition(fields: Answer, scene: Scene) -> None:
    """Make the sender mostly a live broker, and the requested state mostly the current one."""
    fields["brokerId"] = scene.choose(Pool((ME,), (NOBODY, -1)))
    _fill(fields, _HEAD, scene)
    for topic in fields["topics"]:
        for partition in topic["partitions"]:
            _fill(partition, {**_STATE, "leaderEpoch": Pool((0,), (1, -1, MAX_INT)), "newIsr": _REPLICAS}, scene)
            if "newIsrWithEpochs" in partition:
                partition["newIsrWithEpochs"] = [
                    {"brokerId": each, "brokerEpoch": scene.choose(_HEAD["brokerEpoch"])}
                    for each in scene.choose(_REPLICAS)
                ]


def controlled_shutdown(fields: Answer, scene: Scene) -> None:
    """Make mostly another broker shut down, because this one would lead no new topics afterwards."""
    fields["brokerId"] = scene.random.choice((ME, *(NOBODY,) * 6, -1))
    _fill(fields, _HEAD, scene)


def allocate_producer_ids(fields: Answer, scene: Scene) -> None:
    """Make the sender mostly a live broker."""
    fields["brokerId"] = scene.choose(Pool((ME,), (NOBODY, -1)))
    _fill(fields, _HEAD, scene)


def look(fields: Answer, scene: Scene) -> None:
    """Forbid Metadata to create topics."""
    metadata(fields, scene)
    if "allowAutoTopicCreation" in fields:
        fields["allowAutoTopicCreation"] = False


def restore(side: Side) -> None:
    """Send a broker the list of live brokers, because an earlier session may have sent another one."""
    request = {
        "controllerId": ME,
        "isKRaftController": False,
        "type": 0,
        "controllerEpoch": Own("fact", CONTROLLER_EPOCH),
        "brokerEpoch": Own("fact", BROKER_EPOCH),
        "topicStates": [],
        "liveBrokers": [itself(LATEST)],
    }
    side.ask(UPDATE_METADATA, LATEST, side.learned.value(request))


def in_no_time(fields: Answer, scene: Scene) -> None:
    """Set timeouts of 0, because replicas on brokers that do not exist never answer."""
    fields["timeoutMs"] = scene.random.choice((0, 50))


def spoils(exchange: Exchange) -> bool:
    """Whether the brokers cannot create topics any more, or refuse the requests of their real controller."""
    if all(answer.get("error_code") != 0 for answer in exchange.answers):
        return False
    is_from_the_future = exchange.step.fields.get("controllerEpoch") == Own("fact", CONTROLLER_EPOCH, 1)
    return exchange.step.api == "ControlledShutdown" or (exchange.step.api in FROM_A_CONTROLLER and is_from_the_future)


KIND: Final = Kind(
    in_turn=OF_BROKERS.__contains__,
    weights={
        "LeaderAndIsr": 4,
        "StopReplica": 2,
        "UpdateMetadata": 3,
        "AlterPartition": 3,
        "AllocateProducerIds": 1,
        "Metadata": 3,
        "Produce": 4,
        "Fetch": 4,
        "ListOffsets": 2,
        "DescribeLogDirs": 1,
        "OffsetForLeaderEpoch": 1,
        "DescribeProducers": 1,
        "ElectLeaders": 1,
        "ListPartitionReassignments": 1,
        "DeleteRecords": 1,
    },
    opening=(("CreateTopics", 7), ("CreateTopics", 7), ("InitProducerId", 4), ("Produce", 9)),
    adjustments={
        **dict.fromkeys(FROM_A_CONTROLLER, of_controller),
        "AlterPartition": alter_partition,
        "ControlledShutdown": controlled_shutdown,
        "AllocateProducerIds": allocate_producer_ids,
        "Metadata": look,
        **dict.fromkeys(("Produce", "DeleteRecords", "ElectLeaders"), in_no_time),
    },
    # Produce that is not served, and Metadata that creates topics.
    unserved=(*(("Produce", version) for version in range(3)), *(("Metadata", version) for version in range(4))),
    # After these requests the real controller cannot delete topics.
    is_tidy=False,
    prepare=restore,
    spoils=spoils,
)


@contextlib.contextmanager
def fresh_pair(codec: Codec, settings: Sequence[str] = SETTINGS) -> Iterator[Pair]:
    """Run both brokers during the block, each as the only broker of a cluster, and so as its controller."""
    with contextlib.ExitStack() as stack:
        ottla, facts_of_ottla = _started(Ottla, stack, settings)
        kafka, facts_of_kafka = _started(QuickKafka, stack, settings)
        pair = Pair(ottla, kafka, codec)
        pair.sides.ottla.facts, pair.sides.kafka.facts = facts_of_ottla, facts_of_kafka
        pair.warm_up()
        yield pair
        assert "A bug" not in ottla.output()


def _started(kind: type[Broker], stack: contextlib.ExitStack, settings: Sequence[str]) -> tuple[Broker, dict[str, int]]:
    """Return a broker, which the stack will stop, and its epochs."""
    made = tempfile.TemporaryDirectory(prefix="compat-", ignore_cleanup_errors=True)
    folder = Path(stack.enter_context(made))
    server = stack.enter_context(zookeeper.running(folder / "zookeeper", ["tickTime=200"]))
    broker = kind(folder, [f"zookeeper.connect={server.connect}", *settings])
    broker.start()
    # Without a shutdown, because the data is thrown away.
    stack.callback(broker.kill)
    znodes = KazooClient(server.connect)
    znodes.start()
    try:
        return broker, {
            CONTROLLER_EPOCH: int(znodes.get("/controller_epoch")[0]),
            BROKER_EPOCH: znodes.get(f"/brokers/ids/{ME}")[1].czxid,
        }
    finally:
        znodes.stop()
        znodes.close()
