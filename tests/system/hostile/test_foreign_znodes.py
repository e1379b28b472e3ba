"""A cluster on a real ZooKeeper obeys znodes of others, such as old tools, and survives nonsense in znodes.

The writer is kazoo alone, so that no code of ours decides the form of a znode.
"""

import contextlib
import json
import os
import resource
import signal
import time
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

import confluent_kafka
import pytest
from confluent_kafka import admin as librdkafka_admin
from kazoo.client import KazooClient

from compat_tests.support.zookeeper import ZooKeeper, running
from ottla import Broker
from ottla.embedded.broker import BrokerError
from ottla.wire.codec import decode_response, encode_request
from ottla.wire.messages.init_producer_id import InitProducerIdRequest, InitProducerIdResponse
from tests.support.raw import RawClient

# The packages have no explicit exports.
ConfigResource: Any = vars(librdkafka_admin)["ConfigResource"]
pytestmark = [pytest.mark.slow, pytest.mark.timeout(300)]
SESSION_TIMEOUT_MS = 2_000
# Session timeout of short-lived brokers: a broker whose id is taken waits for twice as long, and some seconds.
BRIEF_SESSION_MS = 500
PATIENCE_S = 120.0
IDS = (0, 1, 2)
MIB = 1 << 20
SETTINGS: Mapping[str, Any] = {
    "zookeeper_session_timeout_ms": SESSION_TIMEOUT_MS,
    "auto_leader_rebalance_enable": False,
    "controlled_shutdown_enable": False,
    "log_index_size_max_bytes": 8 * MIB,
}


class Cluster:
    """Three brokers, each a process of its own, and a stranger that writes into their ZooKeeper."""

    def __init__(self, brokers: list[Broker], stranger: KazooClient) -> None:
        self.brokers = brokers
        self.stranger = stranger

    def write(self, path: str, data: object = b"", *, sequence: bool = False) -> None:
        raw = data if isinstance(data, bytes) else json.dumps(data).encode()
        if not sequence and self.stranger.exists(path):
            self.stranger.set(path, raw)
        else:
            self.stranger.create(path, raw, makepath=True, sequence=sequence)

    def read(self, path: str) -> Any:
        return json.loads(self.stranger.get(path)[0])

    def create(self, topic: str, *replicas: list[int]) -> None:
        """Create a topic as a tool of Kafka before 2.8 did."""
        partitions = {str(index): each for index, each in enumerate(replicas)}
        self.write(f"/brokers/topics/{topic}", {"version": 1, "partitions": partitions})
        self.wait_for(topic, {index: each[0] for index, each in enumerate(replicas)})

    def partitions(self, topic: str, broker: Broker) -> dict[int, Any]:
        admin = librdkafka_admin.AdminClient({"bootstrap.servers": broker.bootstrap, "log_level": 0})
        return admin.list_topics(topic, timeout=120).topics[topic].partitions

    def leaders(self, topic: str, broker: Broker) -> dict[int, int]:
        return {index: each.leader for index, each in self.partitions(topic, broker).items()}

    def in_sync(self, topic: str, broker: Broker) -> list[int]:
        return list(self.partitions(topic, broker)[0].isrs)

    def wait_for(self, topic: str, leaders: dict[int, int]) -> None:
        """Wait until every broker knows these leaders."""
        for broker in self.brokers:
            until_is(leaders, self.leaders, topic, broker)

    def config(self, broker: Broker, kind: Any, name: str, key: str) -> str | None:
        admin = librdkafka_admin.AdminClient({"bootstrap.servers": broker.bootstrap, "log_level": 0})
        resource_ = ConfigResource(kind, name)
        found = admin.describe_configs([resource_])[resource_].result(120)
        return found[key].value  # type: ignore[no-any-return]

    def replicas(self, topic: str) -> set[int]:
        """Return the brokers with a directory of the first partition."""
        return {index for index, each in enumerate(self.brokers) if (each.folder / "data" / f"{topic}-0").exists()}

    def check(self, topic: str) -> None:
        """Check that a topic can be created, written and read."""
        self.create(topic, [0, 1, 2], [1, 2, 0], [2, 0, 1])
        servers = ",".join(each.bootstrap for each in self.brokers)
        producer = confluent_kafka.Producer({"bootstrap.servers": servers, "acks": "all", "log_level": 0})
        errors: list[object] = []
        for partition in IDS:
            producer.produce(topic, b"v", partition=partition, on_delivery=lambda error, _: errors.append(error))
        assert producer.flush(PATIENCE_S) == 0
        assert errors == [None] * 3


def until_is(wanted: object, found: Callable[..., object], *args: object) -> None:
    deadline = time.monotonic() + PATIENCE_S
    while True:
        with contextlib.suppress(confluent_kafka.KafkaException, LookupError):
            if found(*args) == wanted:
                return
        assert time.monotonic() < deadline
        time.sleep(0.05)


def until(what: Callable[[], object]) -> None:
    until_is(True, lambda: bool(what()))


def start(zookeeper: ZooKeeper, broker_id: int, **settings: Any) -> Broker:
    connect = f"{zookeeper.connect}/ottla"
    return Broker(broker_id=broker_id, zookeeper_connect=connect, **{**SETTINGS, **settings})


@pytest.fixture(scope="module")
def zookeeper(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ZooKeeper]:
    with running(tmp_path_factory.mktemp("zookeeper"), ["tickTime=200"]) as server:
        yield server


@pytest.fixture(scope="module")
def cluster(zookeeper: ZooKeeper) -> Iterator[Cluster]:
    with contextlib.ExitStack() as stack:
        brokers = [stack.enter_context(start(zookeeper, each)) for each in IDS]
        stranger = KazooClient(f"{zookeeper.connect}/ottla")
        stranger.start()
        stack.callback(stranger.close)
        stack.callback(stranger.stop)
        yield Cluster(brokers, stranger)
        for each in brokers:
            assert "A bug" not in each.output
            assert "Traceback" not in each.output


def test_a_foreign_topic_gets_leaders_an_id_and_more_partitions_and_is_deleted(cluster: Cluster) -> None:
    cluster.create("t", [0, 1], [1, 2])
    found = cluster.read("/brokers/topics/t")
    assert found["topic_id"]
    found["partitions"]["2"] = [2, 0]
    cluster.write("/brokers/topics/t", found)
    cluster.wait_for("t", {0: 0, 1: 1, 2: 2})
    cluster.write("/admin/delete_topics/t")
    until(lambda: not cluster.stranger.exists("/brokers/topics/t"))
    until(lambda: not cluster.stranger.exists("/admin/delete_topics/t"))
    until(lambda: not cluster.replicas("t"))


@pytest.mark.parametrize(
    "notification",
    [
        {"version": 1, "entity_type": "topics", "entity_name": "configured"},
        {"version": 2, "entity_path": "topics/configured"},
    ],
    ids=["version-1", "version-2"],
)
def test_a_topic_is_configured_on_every_broker(cluster: Cluster, notification: dict[str, Any]) -> None:
    if not cluster.stranger.exists("/brokers/topics/configured"):
        cluster.create("configured", [0, 1, 2])
    wanted = str(1000 + notification["version"])
    cluster.write("/config/topics/configured", {"version": 1, "config": {"retention.ms": wanted}})
    cluster.write("/config/changes/config_change_", notification, sequence=True)
    kind = ConfigResource.Type.TOPIC
    for each in cluster.brokers:
        until_is(wanted, cluster.config, each, kind, "configured", "retention.ms")


def test_brokers_are_configured_one_and_all(cluster: Cluster) -> None:
    kind, key = ConfigResource.Type.BROKER, "log.retention.ms"
    cluster.write("/config/brokers/<default>", {"version": 1, "config": {key: "11111"}})
    cluster.write("/config/changes/config_change_", {"version": 2, "entity_path": "brokers/<default>"}, sequence=True)
    cluster.write("/config/brokers/1", {"version": 1, "config": {key: "22222"}})
    cluster.write("/config/changes/config_change_", {"version": 2, "entity_path": "brokers/1"}, sequence=True)
    for broker_id, wanted in ((0, "11111"), (1, "22222"), (2, "11111")):
        until_is(wanted, cluster.config, cluster.brokers[broker_id], kind, str(broker_id), key)


def test_a_foreign_reassignment_moves_a_partition(cluster: Cluster) -> None:
    cluster.create("moved", [0, 1])
    wanted = [{"topic": "moved", "partition": 0, "replicas": [2, 1]}]
    cluster.write("/admin/reassign_partitions", {"version": 1, "partitions": wanted})
    until(lambda: not cluster.stranger.exists("/admin/reassign_partitions"))
    assert cluster.read("/brokers/topics/moved")["partitions"] == {"0": [2, 1]}
    until(lambda: cluster.replicas("moved") == {1, 2})
    cluster.wait_for("moved", {0: cluster.read("/brokers/topics/moved/partitions/0/state")["leader"]})


def test_a_foreign_election_makes_the_preferred_replica_lead(cluster: Cluster) -> None:
    cluster.create("preferred", [0, 1])
    state = "/brokers/topics/preferred/partitions/0/state"
    wanted = [{"topic": "preferred", "partition": 0, "replicas": [1, 0]}]
    cluster.write("/admin/reassign_partitions", {"version": 1, "partitions": wanted})
    until(lambda: not cluster.stranger.exists("/admin/reassign_partitions"))
    assert cluster.read(state)["leader"] == 0
    asked = [{"topic": "preferred", "partition": 0}]
    cluster.write("/admin/preferred_replica_election", {"version": 1, "partitions": asked})
    until(lambda: not cluster.stranger.exists("/admin/preferred_replica_election"))
    cluster.wait_for("preferred", {0: 1})


def test_the_controller_moves_when_its_znode_is_deleted(cluster: Cluster) -> None:
    for turn in range(3):
        epoch = cluster.read("/controller_epoch")
        cluster.stranger.delete("/controller")
        until_is(epoch + 1, cluster.read, "/controller_epoch")
        cluster.check(f"controller-{turn}")


def test_an_isr_written_by_a_leader_reaches_all_brokers(cluster: Cluster) -> None:
    cluster.create("synced", [0, 1])
    path = "/brokers/topics/synced/partitions/0/state"
    until(lambda: cluster.read(path)["isr"] == [0, 1])
    cluster.write(path, cluster.read(path) | {"isr": [0]})
    said = [{"topic": "synced", "partition": 0}]
    cluster.write("/isr_change_notification/isr_change_", {"version": 1, "partitions": said}, sequence=True)
    until(lambda: not cluster.stranger.get_children("/isr_change_notification"))
    for each in cluster.brokers:
        until_is([0], cluster.in_sync, "synced", each)


def test_other_brokers_lead_the_partitions_of_a_broker_whose_only_disk_fails(cluster: Cluster) -> None:
    broker = cluster.brokers[1]
    before = resource.prlimit(broker.pid, resource.RLIMIT_FSIZE)
    # Creating a log allocates its whole index.
    resource.prlimit(broker.pid, resource.RLIMIT_FSIZE, (MIB, before[1]))
    partitions = {"version": 1, "partitions": {"0": [1, 2], "1": [2, 1]}}
    cluster.write("/brokers/topics/refused", partitions)
    for other in (cluster.brokers[0], cluster.brokers[2]):
        until_is({0: 2, 1: 2}, cluster.leaders, "refused", other)
    assert "Shutdown broker because all log dirs in" in broker.output
    broker.kill()
    broker.start()
    for index in (0, 1):
        until_is(
            [1, 2], lambda path: sorted(cluster.read(path)["isr"]), f"/brokers/topics/refused/partitions/{index}/state"
        )


NONSENSE = [
    b"",
    b"[]",
    b'{"version":99,"partitions":[1],"config":{"retention.ms":{}},"endpoints":{}}',
    b"[" * 200_000,
    b'{"version":1,"x":"' + b"x" * 900_000 + b'"}',
    b"nonsense",
]


def test_nonsense_in_znodes_neither_ends_nor_stalls_a_broker(cluster: Cluster) -> None:
    cluster.create("mangled", [0, 1, 2])
    paths = [
        "/brokers/ids/77",
        "/brokers/ids/x",
        "/brokers/seqid",
        "/brokers/topics/nonsense",
        "/brokers/topics/mangled/partitions/0/state",
        "/config/topics/mangled",
        "/config/brokers/<default>",
        "/config/brokers/1",
        "/admin/reassign_partitions",
        "/admin/preferred_replica_election",
        "/admin/delete_topics/nobody",
        "/feature",
    ]
    sequences = [
        "/config/changes/config_change_",
        "/isr_change_notification/isr_change_",
        "/log_dir_event_notification/log_dir_event_",
    ]
    for turn, data in enumerate(NONSENSE):
        for path in paths:
            cluster.write(path, data)
        for path in sequences:
            cluster.write(path, data, sequence=True)
        cluster.check(f"beside-nonsense-{turn}")
    # A starting broker finds all nonsense.
    cluster.stranger.delete("/controller")
    cluster.check("after-nonsense")
    for each in cluster.brokers:
        each.kill()
        each.start()
    cluster.check("restarted-after-nonsense")
    told = "".join(each.output for each in cluster.brokers)
    for path in ("/brokers/ids/77", "/brokers/topics/nonsense", "/config/brokers/1", "/admin/reassign_partitions"):
        assert f"{path} is passed over: " in told
    assert cluster.stranger.get_children("/log_dir_event_notification") == []
    for path in ("/brokers/ids/77", "/brokers/ids/x", "/brokers/topics/nonsense"):
        cluster.stranger.delete(path, recursive=True)


def test_producer_ids_are_allocated_again_once_their_znode_is_readable(cluster: Cluster) -> None:
    path = "/latest_producer_id_block"
    sound = cluster.stranger.get(path)[0]
    cluster.write(path, b"nonsense")
    cluster.brokers[0].kill()
    cluster.brokers[0].start()
    with RawClient(cluster.brokers[0].bootstrap, PATIENCE_S) as client:
        client.send(
            encode_request(4, 1, "producer", InitProducerIdRequest(transactional_id=None, transaction_timeout_ms=1000))
        )
        until(lambda: f"{path}: not JSON" in cluster.brokers[0].output)
        cluster.write(path, sound)
        reply = client.frame()
    assert reply is not None
    answer = decode_response(memoryview(reply), InitProducerIdRequest, 4)[1]
    assert isinstance(answer, InitProducerIdResponse)
    assert answer.error_code == 0
    assert answer.producer_id == (int(json.loads(sound)["block_end"]) + 1 if sound else 0)


# Which brokers may join the cluster


def refused(
    zookeeper: ZooKeeper, broker_id: int, prepare: Callable[[Path], None] = lambda folder: None, chroot: str = "ottla"
) -> str:
    """Return the only line of a broker that does not start."""

    class Prepared(Broker):
        def _arguments(self, folder: Path) -> Any:
            prepare(folder / "data")
            return super()._arguments(folder)

    settings = {**SETTINGS, "zookeeper_session_timeout_ms": BRIEF_SESSION_MS}
    broker = Prepared(broker_id=broker_id, zookeeper_connect=f"{zookeeper.connect}/{chroot}", **settings)
    with pytest.raises(BrokerError) as caught:
        broker.start()
    (line,) = str(caught.value).splitlines()
    return line.removeprefix("the broker did not start: ")


def test_a_broker_id_in_use_is_refused(cluster: Cluster, zookeeper: ZooKeeper) -> None:
    before = cluster.stranger.get("/brokers/ids/1")
    assert refused(zookeeper, 1) == "broker id 1 is in use: another session owns /brokers/ids/1"
    assert cluster.stranger.get("/brokers/ids/1") == before
    cluster.check("taken-once")


def test_a_killed_broker_waits_for_the_end_of_its_session_and_starts(cluster: Cluster) -> None:
    broker = cluster.brokers[2]
    owner = cluster.stranger.get("/brokers/ids/2")[1].ephemeralOwner
    broker.kill()
    assert cluster.stranger.get("/brokers/ids/2")[1].ephemeralOwner == owner
    broker.start()
    assert cluster.stranger.get("/brokers/ids/2")[1].ephemeralOwner != owner
    assert "Another session owns /brokers/ids/2" in broker.output


@pytest.mark.parametrize(
    ("text", "fault"),
    [
        (
            "version=0\nbroker.id=9\ncluster.id=another\n",
            "Invalid cluster.id in: {file}. Expected {own}, but read another",
        ),
        ("version=0\nbroker.id=8\n", "Stored node id 8 doesn't match previous node id 9 in {file}. "),
        (
            "version=3\n",
            "Shutdown broker because none of the specified log dirs from {directory} can be created or validated",
        ),
        ("version=1\nnode.id=9\ncluster.id=x\n", "Found unexpected version in {file}. "),
    ],
)
def test_a_directory_of_another_broker_or_cluster_is_refused(
    cluster: Cluster, zookeeper: ZooKeeper, text: str, fault: str
) -> None:
    files: list[Path] = []

    def prepare(data: Path) -> None:
        data.mkdir(exist_ok=True)
        files.append(data / "meta.properties")
        files[0].write_text(text)

    line = refused(zookeeper, 9, prepare)
    expected = fault.format(file=files[0], directory=files[0].parent, own=cluster.read("/cluster/id")["id"])
    assert line.startswith(expected.strip())
    assert not cluster.stranger.exists("/brokers/ids/9")


def test_a_broker_of_a_cluster_refuses_a_zookeeper_without_one(zookeeper: ZooKeeper) -> None:
    def prepare(data: Path) -> None:
        data.mkdir(exist_ok=True)
        (data / "meta.properties").write_text("version=0\nbroker.id=9\ncluster.id=mine\n")

    assert "but read mine" in refused(zookeeper, 9, prepare, "elsewhere")


def test_a_cluster_whose_id_cannot_be_read_is_refused(cluster: Cluster, zookeeper: ZooKeeper) -> None:
    sound = cluster.stranger.get("/cluster/id")[0]
    cluster.write("/cluster/id", b"nonsense")
    try:
        assert refused(zookeeper, 9) == "/cluster/id: not JSON: b'nonsense'"
    finally:
        cluster.write("/cluster/id", sound)


def test_a_broker_whose_id_was_taken_while_it_stood_still_ends(cluster: Cluster, zookeeper: ZooKeeper) -> None:
    with contextlib.ExitStack() as stack:
        first = start(zookeeper, 5, zookeeper_session_timeout_ms=BRIEF_SESSION_MS)
        first.start()
        os.kill(first.pid, signal.SIGSTOP)
        try:
            until(lambda: not cluster.stranger.exists("/brokers/ids/5"))
            stack.enter_context(start(zookeeper, 5))
            registered = cluster.stranger.get("/brokers/ids/5")
        finally:
            os.kill(first.pid, signal.SIGCONT)
        ended = os.waitid(os.P_PID, first.pid, os.WEXITED | os.WNOWAIT)
        assert (ended and ended.si_status) == 1, first.output
        assert "\nottla: broker id 5 is in use: " in first.output
        assert "Traceback" not in first.output, first.output
        with pytest.raises(BrokerError, match="the broker ended with 1"):
            first.close()
        assert cluster.stranger.get("/brokers/ids/5") == registered
        cluster.check("taken-in-its-sleep")
