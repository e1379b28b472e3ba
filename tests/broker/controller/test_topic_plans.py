import pytest
from hypothesis import given
from hypothesis import strategies as st

from ottla.broker.cluster.topic_names import check_name, is_internal, name_fault
from ottla.broker.controller.assignment import BrokerPlace
from ottla.broker.controller.topic_plans import Existing, Rules, count_partitions, plan_topic, topic_by_name
from ottla.wire.errors import ErrorCode, KafkaError
from ottla.wire.messages.create_topics import CreatableTopic
from tests.broker.controller.cluster import assigned_topic, topic

RULES = Rules(4, 2, lambda _: 0)
EXISTING = Existing({"taken", "a.b", "going"}, {"going"}, [BrokerPlace(0, None), BrokerPlace(1, None)])


def refusal(wanted: CreatableTopic) -> tuple[ErrorCode, str]:
    with pytest.raises(KafkaError) as caught:
        plan_topic(wanted, EXISTING, RULES)
    return caught.value.code, caught.value.detail


def test_a_topic_is_planned_as_requested() -> None:
    planned = plan_topic(topic("t", 2, 2, retention_ms="1"), EXISTING, RULES)
    assert planned == ("t", {0: (0, 1), 1: (1, 0)}, {"retention.ms": "1"})


def test_missing_numbers_come_from_the_brokers_configuration() -> None:
    planned = plan_topic(topic("t", -1, -1), EXISTING, RULES)
    assert [len(replicas) for replicas in planned.assignment.values()] == [2] * 4


def test_a_manual_assignment_is_used_as_it_is() -> None:
    assert plan_topic(assigned_topic("t", (1, 0), (0, 1)), EXISTING, RULES).assignment == {0: (1, 0), 1: (0, 1)}


@pytest.mark.parametrize(
    ("wanted", "code", "detail"),
    [
        (topic("taken"), ErrorCode.TOPIC_ALREADY_EXISTS, "Topic 'taken' already exists."),
        (topic("going"), ErrorCode.TOPIC_ALREADY_EXISTS, "Topic 'going' is marked for deletion."),
        (topic("a_b"), ErrorCode.INVALID_TOPIC_EXCEPTION, "Topic 'a_b' collides with existing topic: a.b"),
        (topic(""), ErrorCode.INVALID_TOPIC_EXCEPTION, "Topic name is invalid: the empty string is not allowed"),
        (topic("t", 0), ErrorCode.INVALID_PARTITIONS, "Number of partitions was set to an invalid non-positive value."),
        (topic("", 0), ErrorCode.INVALID_PARTITIONS, "Number of partitions was set to an invalid non-positive value."),
        (
            assigned_topic("a_b", ()),
            ErrorCode.INVALID_TOPIC_EXCEPTION,
            "Topic 'a_b' collides with existing topic: a.b",
        ),
        (
            topic("t", 1, 3),
            ErrorCode.INVALID_REPLICATION_FACTOR,
            "Replication factor: 3 larger than available brokers: 2.",
        ),
        (
            topic("t", retention_ms=None, segment_ms=None),
            ErrorCode.INVALID_CONFIG,
            "Null value not supported for topic configs: retention.ms,segment.ms",
        ),
        (
            assigned_topic("t", (0,), (0, 1)),
            ErrorCode.INVALID_REPLICA_ASSIGNMENT,
            "The manual partition assignment includes a partition with 2 replica(s), but this is not consistent with "
            "previous partitions, which have 1 replica(s).",
        ),
        (
            assigned_topic("t", (0, 0)),
            ErrorCode.INVALID_REPLICA_ASSIGNMENT,
            "The manual partition assignment includes the broker 0 more than once.",
        ),
        (
            assigned_topic("t", (7,)),
            ErrorCode.INVALID_REPLICA_ASSIGNMENT,
            "The manual partition assignment includes broker 7, but no such broker is registered.",
        ),
        (
            assigned_topic("t", ()),
            ErrorCode.INVALID_REPLICA_ASSIGNMENT,
            "The manual partition assignment includes an empty replica list.",
        ),
    ],
)
def test_an_invalid_topic_is_refused_in_kafkas_words(wanted: CreatableTopic, code: ErrorCode, detail: str) -> None:
    assert refusal(wanted) == (code, detail)


@pytest.mark.parametrize("indexes", [(0, 0), (0, 2), (1,), (-1, 0)])
def test_manual_partitions_must_count_up_from_zero(indexes: tuple[int, ...]) -> None:
    wanted = assigned_topic("t", *[(0,)] * len(indexes))
    for assignment, index in zip(wanted.assignments, indexes, strict=True):
        assignment.partition_index = index
    assert refusal(wanted)[0] is ErrorCode.INVALID_REPLICA_ASSIGNMENT


def test_an_assignment_and_numbers_exclude_each_other() -> None:
    wanted = assigned_topic("t", (0,))
    wanted.num_partitions = 1
    assert refusal(wanted)[0] is ErrorCode.INVALID_REQUEST


@pytest.mark.parametrize("name", ["a", "A-b_c.9", "x" * 249, "...", "__consumer_offsets"])
def test_names_that_a_topic_may_have(name: str) -> None:
    check_name(name)


@pytest.mark.parametrize("name", ["", ".", "..", "x" * 250, "a b", "a/b", "ä", "a\n", "a\0", "../etc", "\ufffd"])
def test_names_that_no_topic_may_have(name: str) -> None:
    with pytest.raises(KafkaError) as caught:
        check_name(name)
    assert caught.value.code is ErrorCode.INVALID_TOPIC_EXCEPTION


@given(st.text(max_size=300))
def test_a_legal_name_is_a_legal_file_name(name: str) -> None:
    if name_fault(name) is None:
        assert name.isascii()
        assert "/" not in name
        assert name not in ("", ".", "..")
        assert len(name) < 250


def test_kafkas_own_topics_are_internal() -> None:
    assert is_internal("__consumer_offsets")
    assert is_internal("__transaction_state")
    assert not is_internal("__mine")


def test_partitions_of_a_request_are_counted_as_they_will_be_created() -> None:
    assert count_partitions([topic("a", 3), topic("b", -1), assigned_topic("c", (0,), (0,)), topic("d", -7)], 4) == 9


VALUES = {
    "transaction.state.log.replication.factor": 3,
    "transaction.state.log.min.isr": 2,
    "transaction.state.log.num.partitions": 50,
    "transaction.state.log.segment.bytes": 1000,
    "offsets.topic.replication.factor": 3,
    "offsets.topic.num.partitions": 50,
    "offsets.topic.segment.bytes": 1000,
}


@pytest.mark.parametrize(
    ("zookeeper", "brokers", "replicas", "min_isr"),
    [
        # In a cluster the topic waits for the third broker.
        ("some:2181", 1, 3, "2"),
        ("some:2181", 5, 3, "2"),
        (None, 1, 1, "1"),
        (None, 2, 2, "2"),
        (None, 3, 3, "2"),
    ],
)
def test_without_zookeeper_the_topic_of_transactions_needs_no_more_replicas_than_there_are_brokers(
    zookeeper: str | None, brokers: int, replicas: int, min_isr: str
) -> None:
    wanted = topic_by_name("__transaction_state", VALUES | {"zookeeper.connect": zookeeper}, brokers)
    configs = {each.name: each.value for each in wanted.configs}
    assert (wanted.num_partitions, wanted.replication_factor) == (50, replicas)
    assert configs["min.insync.replicas"] == min_isr


def test_a_replication_factor_of_one_is_no_reason_to_change_the_min_isr_in_a_cluster() -> None:
    values = VALUES | {"zookeeper.connect": "some:2181", "transaction.state.log.replication.factor": 1}
    configs = {each.name: each.value for each in topic_by_name("__transaction_state", values, 1).configs}
    assert configs["min.insync.replicas"] == "2"


def test_topics_of_share_groups_are_not_created() -> None:
    with pytest.raises(KafkaError) as caught:
        topic_by_name("__share_group_state", VALUES | {"zookeeper.connect": None}, 1)
    assert caught.value.code is ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
