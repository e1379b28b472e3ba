import json
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ottla.broker.controller.assignment import BrokerPlace, assign_replicas
from ottla.wire.errors import ErrorCode, KafkaError

BROKERS = st.lists(
    st.tuples(st.integers(0, 20), st.sampled_from(["a", "b", "c"])), min_size=1, max_size=9, unique_by=lambda b: b[0]
).map(lambda pairs: [BrokerPlace(*pair) for pair in pairs])


def places(racks: str) -> list[BrokerPlace]:
    return [BrokerPlace(index, None if rack == "-" else rack) for index, rack in enumerate(racks)]


# Computed by AdminUtils.assignReplicasToBrokers of Kafka 3.9.2 for brokers in these racks ("-" is none), with this
# replication factor and fixed start index.
KAFKA = json.loads((Path(__file__).parent / "assignments.json").read_text())


@pytest.mark.parametrize("case", KAFKA, ids=lambda case: f"{case['racks']}-{case['factor']}-{case['start']}")
def test_replicas_are_spread_as_kafka_spreads_them(case: dict[str, object]) -> None:
    racks, start, factor = str(case["racks"]), case["start"], case["factor"]
    assert isinstance(start, int)
    assert isinstance(factor, int)
    expected = case["assignment"]
    assert isinstance(expected, list)
    found = assign_replicas(places(racks), len(expected), factor, lambda _: start)
    assert [list(found[index]) for index in range(len(expected))] == expected


@given(BROKERS, st.booleans(), st.integers(1, 40), st.data())
def test_every_partition_has_distinct_brokers_and_leaders_are_spread_evenly(
    brokers: list[BrokerPlace], has_racks: bool, partitions: int, data: st.DataObject
) -> None:
    if not has_racks:
        brokers = [each._replace(rack=None) for each in brokers]
    factor = data.draw(st.integers(1, len(brokers)))
    start = data.draw(st.integers(0, len(brokers) - 1))
    found = assign_replicas(brokers, partitions, factor, lambda _: start)
    leaders = [replicas[0] for replicas in found.values()]
    counts = [leaders.count(each.broker_id) for each in brokers]
    assert max(counts) - min(counts) <= 1
    racks = {each.broker_id: each.rack for each in brokers}
    for replicas in found.values():
        assert len(set(replicas)) == factor
        if has_racks:
            assert len({racks[each] for each in replicas}) == min(factor, len(set(racks.values())))


@pytest.mark.parametrize(
    ("partitions", "factor", "code"),
    [
        (0, 1, ErrorCode.INVALID_PARTITIONS),
        (-2, 1, ErrorCode.INVALID_PARTITIONS),
        (1, 0, ErrorCode.INVALID_REPLICATION_FACTOR),
        (1, -2, ErrorCode.INVALID_REPLICATION_FACTOR),
        (1, 3, ErrorCode.INVALID_REPLICATION_FACTOR),
    ],
)
def test_invalid_numbers_of_partitions_and_replicas_are_refused(partitions: int, factor: int, code: ErrorCode) -> None:
    with pytest.raises(KafkaError) as caught:
        assign_replicas(places("--"), partitions, factor, lambda _: 0)
    assert caught.value.code is code


def test_brokers_with_and_without_racks_together_are_refused() -> None:
    with pytest.raises(KafkaError):
        assign_replicas(places("a-"), 1, 1, lambda _: 0)
