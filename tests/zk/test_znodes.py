import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ottla.wire.types import TopicPartition
from ottla.zk import znodes
from ottla.zk.strict_json import ZnodeError
from ottla.zk.znodes import (
    BrokerInfo,
    Endpoint,
    PartitionState,
    ProducerIdBlock,
    ReplicaAssignment,
    TopicAssignment,
)

TOPIC_ID = bytes(range(16))
BROKER_IDS = st.lists(st.integers(0, 1000), min_size=1, max_size=5, unique=True).map(tuple)


def test_a_topic_is_written_as_kafka_writes_it() -> None:
    topic = TopicAssignment(TOPIC_ID, {0: ReplicaAssignment((1, 2, 3), adding=(3,), removing=(1,))})
    assert topic.encode() == (
        b'{"partitions":{"0":[1,2,3]},"topic_id":"AAECAwQFBgcICQoLDA0ODw",'
        b'"adding_replicas":{"0":[3]},"removing_replicas":{"0":[1]},"version":3}'
    )


def test_a_topic_without_an_id_is_written_without_one() -> None:
    assert "topic_id" not in json.loads(TopicAssignment(None, {}).encode())


def test_a_topic_of_an_old_tool_is_read() -> None:
    assert TopicAssignment.decode(b'{"version":1,"partitions":{"1":[2],"0":[1]}}') == (
        None,
        {0: ReplicaAssignment((1,)), 1: ReplicaAssignment((2,))},
    )


def test_the_target_of_a_reassignment_excludes_removing_replicas() -> None:
    assert ReplicaAssignment((1, 2, 3), adding=(3,), removing=(1,)).target == (2, 3)


@given(st.dictionaries(st.integers(0, 10_000), BROKER_IDS, max_size=20))
def test_every_topic_is_read_as_it_was_written(replicas: dict[int, tuple[int, ...]]) -> None:
    topic = TopicAssignment(TOPIC_ID, {index: ReplicaAssignment(each) for index, each in replicas.items()})
    assert TopicAssignment.decode(topic.encode()) == topic


def test_a_partition_is_written_as_kafka_writes_it() -> None:
    state = PartitionState(leader=1, leader_epoch=5, isr=(1, 2), controller_epoch=7, version=9)
    assert state.encode() == b'{"controller_epoch":7,"leader":1,"version":1,"leader_epoch":5,"isr":[1,2]}'
    assert PartitionState.decode(state.encode(), 9) == state


def test_an_unclean_leader_is_written_down_as_recovering() -> None:
    state = PartitionState(1, 5, (1,), 7, znodes.RECOVERING)
    assert json.loads(state.encode())["leader_recovery_state"] == 1
    assert PartitionState.decode(state.encode(), 0) == state


def test_a_broker_is_written_as_kafka_writes_it() -> None:
    info = BrokerInfo(3, (Endpoint("INSIDE", "h", 9092, "SSL"), Endpoint("PLAINTEXT", "::1", 9093)), rack="r")
    assert json.loads(info.encode(1234)) == {
        "features": {},
        "listener_security_protocol_map": {"INSIDE": "SSL", "PLAINTEXT": "PLAINTEXT"},
        "endpoints": ["INSIDE://h:9092", "PLAINTEXT://[::1]:9093"],
        "jmx_port": -1,
        "port": 9093,
        "host": "::1",
        "version": 5,
        "timestamp": "1234",
        "rack": "r",
    }
    assert BrokerInfo.decode(3, info.encode(1234)) == info


def test_a_broker_without_a_plaintext_listener_has_none_for_old_clients() -> None:
    written = json.loads(BrokerInfo(3, (Endpoint("SSL", "h", 9092, "SSL"),)).encode(0))
    assert (written["host"], written["port"], "rack" in written) == (None, -1, False)


def test_a_registration_of_the_first_version_is_read() -> None:
    info = BrokerInfo.decode(1, b'{"version":1,"host":"localhost","port":9092,"jmx_port":9999,"timestamp":"2"}')
    assert info == BrokerInfo(1, (Endpoint("PLAINTEXT", "localhost", 9092),), None, 9999)


def test_a_registration_without_a_protocol_map_takes_names_for_protocols() -> None:
    info = BrokerInfo.decode(1, b'{"version":2,"jmx_port":1,"endpoints":["SSL://a.b-c:1"]}')
    assert info.endpoints == (Endpoint("SSL", "a.b-c", 1, "SSL"),)


def test_the_controller_and_its_epoch_are_written_as_kafka_writes_them() -> None:
    data = znodes.encode_controller(4, 99)
    assert data == b'{"version":2,"brokerid":4,"timestamp":"99","kraftControllerEpoch":-1}'
    assert znodes.decode_controller(data) == 4
    assert znodes.encode_controller_epoch(12) == b"12"
    assert znodes.decode_controller_epoch(b"12") == 12


def test_configs_are_written_as_kafka_writes_them() -> None:
    data = znodes.encode_config({"retention.ms": "1"})
    assert data == b'{"version":1,"config":{"retention.ms":"1"}}'
    assert znodes.decode_config(data) == {"retention.ms": "1"}
    assert znodes.decode_config(b"") == {}


def test_the_cluster_id_has_a_version_that_is_a_string() -> None:
    data = znodes.encode_cluster_id("abc")
    assert data == b'{"version":"1","id":"abc"}'
    assert znodes.decode_cluster_id(data) == "abc"


def test_a_block_of_producer_ids_is_written_as_kafka_writes_it() -> None:
    block = ProducerIdBlock(0, 1000, 1999)
    assert block.encode() == b'{"version":1,"broker":0,"block_start":"1000","block_end":"1999"}'
    assert ProducerIdBlock.decode(block.encode()) == block


@pytest.mark.parametrize("data", [b"", b"nonsense", b"[]", b"{}", b'{"partitions":[]}', b'{"leader":"1"}', b"\xff"])
def test_malformed_data_is_refused(data: bytes) -> None:
    for decode in (
        TopicAssignment.decode,
        lambda each: PartitionState.decode(each, 0),
        lambda each: BrokerInfo.decode(0, each),
        znodes.decode_controller,
        znodes.decode_controller_epoch,
        znodes.decode_cluster_id,
        ProducerIdBlock.decode,
    ):
        with pytest.raises(ZnodeError):
            decode(data)


def test_an_id_is_spelt_without_padding() -> None:
    assert znodes.decode_uuid("AAAAAAAAAAAAAAAAAAAAAQ") == bytes(15) + b"\1"
    with pytest.raises(ZnodeError):
        znodes.decode_uuid("AAAA")


def test_paths_are_kafkas() -> None:
    partition = TopicPartition("t", 3)
    assert znodes.partition_state_path(partition) == "/brokers/topics/t/partitions/3/state"
    assert znodes.broker_id_path(7) == "/brokers/ids/7"
    assert znodes.topic_config_path("t") == "/config/topics/t"
    assert znodes.delete_topic_path("t") == "/admin/delete_topics/t"


def test_parents_come_before_their_children_and_once() -> None:
    assert znodes.parents_of(["/a/b/c", "/a/d"]) == ["/a", "/a/b", "/a/b/c", "/a/d"]


def test_reassignments_of_old_tools_are_read() -> None:
    data = b'{"version":1,"partitions":[{"topic":"t","partition":3,"replicas":[2,1]}]}'
    wanted = {TopicPartition("t", 3): (2, 1)}
    assert znodes.decode_reassignments(data) == wanted
    assert znodes.encode_reassignments(wanted) == data
