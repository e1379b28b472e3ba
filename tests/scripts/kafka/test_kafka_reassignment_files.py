"""The proposals of kafka-reassign-partitions: even, from a random broker on, like those of Kafka's tool."""

from collections import Counter

from ottla.scripts.kafka.clusters.reassignment_files import propose


def test_each_broker_leads_as_often_as_the_others() -> None:
    found = propose(dict.fromkeys((1, 2, 3)), 6, 2)
    assert Counter(replicas[0] for replicas in found) == {1: 2, 2: 2, 3: 2}
    assert Counter(broker for replicas in found for broker in replicas) == {1: 4, 2: 4, 3: 4}
    assert all(len(set(replicas)) == 2 for replicas in found)


def test_each_rack_has_a_replica_of_each_partition() -> None:
    racks = {1: "a", 2: "a", 3: "b", 4: "b", 5: "c", 6: "c"}
    found = propose(racks, 12, 3)
    assert all({racks[broker] for broker in replicas} == {"a", "b", "c"} for replicas in found)
    assert set(Counter(replicas[0] for replicas in found).values()) == {2}


def test_a_proposal_may_need_all_brokers() -> None:
    assert all(sorted(replicas) == [1, 2, 3] for replicas in propose({1: "a", 2: "b", 3: "b"}, 5, 3))
