import pytest
from hypothesis import given
from hypothesis import strategies as st

from ottla.broker.controller import leader_choice as election
from ottla.zk.znodes import NO_LEADER, RECOVERED, RECOVERING, PartitionState, ReplicaAssignment
from tests.broker.controller.contexts import P, context_of, lead

BROKERS = st.sets(st.integers(0, 4))
REPLICAS = st.lists(st.integers(0, 4), min_size=1, max_size=5, unique=True).map(tuple)


def test_the_first_live_replica_leads_a_new_partition_and_all_live_ones_are_in_sync() -> None:
    context = context_of((2, 3), (1, 2, 3))
    assert election.first_leader(context, P) == PartitionState(2, 0, (2, 3), context.epoch, RECOVERED, 0)


def test_a_new_partition_without_a_live_replica_has_no_leader() -> None:
    assert election.first_leader(context_of((4,), (1, 2)), P) is None


def test_after_a_failure_the_first_live_in_sync_replica_leads() -> None:
    context = context_of((2, 3, 4), (1, 2, 3, 4))
    state = lead(context, P, 1, 1, 3, 4)
    elected = election.after_failure(context, P, state, allow_unclean=False)
    assert elected == PartitionState(3, 6, (3, 4), 7, RECOVERED, state.version)


def test_a_replica_out_of_sync_leads_only_if_that_is_allowed() -> None:
    context = context_of((2,), (1, 2))
    state = lead(context, P, 1, 1)
    assert election.after_failure(context, P, state, allow_unclean=False) is None
    elected = election.after_failure(context, P, state, allow_unclean=True)
    assert elected == PartitionState(2, 6, (2,), 7, RECOVERING, state.version)


def test_an_in_sync_replica_is_elected_even_if_unclean_elections_are_allowed() -> None:
    context = context_of((1, 2), (1, 2))
    elected = election.after_failure(context, P, lead(context, P, 0, 0, 2), allow_unclean=True)
    assert elected is not None
    assert (elected.leader, elected.recovery_state) == (2, RECOVERED)


def test_a_recovering_partition_stays_so_when_its_leader_changes() -> None:
    context = context_of((2,), (1, 2))
    state = lead(context, P, 1, 1, 2)._replace(recovery_state=RECOVERING)
    elected = election.after_failure(context, P, state, allow_unclean=False)
    assert elected is not None
    assert elected.recovery_state == RECOVERING


def test_a_replica_on_a_broken_disk_does_not_lead() -> None:
    context = context_of((1, 2), (1, 2))
    context.offline_directories[1] = {P}
    elected = election.after_failure(context, P, lead(context, P, 1, 1, 2), allow_unclean=False)
    assert elected is not None
    assert (elected.leader, elected.isr) == (2, (2,))


def test_a_reassignment_elects_a_replica_that_stays() -> None:
    context = context_of((1, 2, 3), (1, 2, 3))
    context.assignments["t"][0] = ReplicaAssignment((1, 2, 3), adding=(3,), removing=(1,))
    elected = election.for_reassignment(context, P, lead(context, P, 1, 1, 3))
    assert elected is not None
    assert (elected.leader, elected.isr, elected.leader_epoch) == (3, (1, 3), 6)


@pytest.mark.parametrize(("live", "isr", "leader"), [((1, 2), (2, 1), 1), ((2,), (2, 1), None), ((1, 2), (2,), None)])
def test_the_preferred_leader_leads_if_it_is_live_and_in_sync(
    live: tuple[int, ...], isr: tuple[int, ...], leader: int | None
) -> None:
    context = context_of(live, (1, 2))
    elected = election.preferred(context, P, lead(context, P, 2, *isr))
    assert (None if elected is None else elected.leader) == leader


def test_before_a_shutdown_another_replica_leads_and_the_isr_shrinks() -> None:
    context = context_of((1, 2, 3), (1, 2, 3))
    context.shutting_down.add(1)
    elected = election.before_shutdown(context, P, lead(context, P, 1, 1, 2, 3))
    assert elected is not None
    assert (elected.leader, elected.isr) == (2, (2, 3))
    assert election.before_shutdown(context, P, lead(context, P, 1, 1)) is None


def test_a_replica_that_stops_leaves_the_isr_and_leads_no_more() -> None:
    context = context_of((1, 2), (1, 2))
    state = lead(context, P, 1, 1, 2)
    assert election.without_replica(context, state, 1)[:3] == (NO_LEADER, 6, (2,))
    assert election.without_replica(context, state, 2)[:3] == (1, 6, (1,))


def test_the_last_replica_in_sync_stays_so_when_it_stops() -> None:
    context = context_of((1, 2), (1, 2))
    assert election.without_replica(context, lead(context, P, 1, 1), 1)[:3] == (NO_LEADER, 6, (1,))


@given(BROKERS, REPLICAS, st.data(), st.booleans())
def test_an_elected_leader_is_live_assigned_and_in_its_isr(
    live: set[int], replicas: tuple[int, ...], data: st.DataObject, allow_unclean: bool
) -> None:
    context = context_of(tuple(live), replicas)
    isr = data.draw(st.lists(st.sampled_from(replicas), min_size=1, unique=True))
    state = lead(context, P, isr[0], *isr)
    elected = election.after_failure(context, P, state, allow_unclean=allow_unclean)
    if elected is None:
        assert not live & set(isr)
        assert not (allow_unclean and live & set(replicas))
    else:
        assert elected.leader in live
        assert elected.leader in replicas
        assert elected.leader in elected.isr
        assert set(elected.isr) <= live
        assert elected.leader_epoch == state.leader_epoch + 1
        assert elected.controller_epoch == context.epoch
        # Only an unclean election puts a replica out of sync into the ISR.
        assert set(elected.isr) <= set(isr) or elected.recovery_state == RECOVERING


def test_partitions_return_to_preferred_leaders_if_other_brokers_lead_too_many() -> None:
    context = context_of((1, 2), *[(1, 2)] * 10)
    partitions = context.partitions_of("t")
    for partition in partitions:
        lead(context, partition, 1, 1, 2)
    lead(context, partitions[3], 2, 1, 2)
    assert election.out_of_balance(context, 10) == []
    assert election.out_of_balance(context, 9) == [partitions[3]]
    lead(context, partitions[5], 2, 2)
    assert election.out_of_balance(context, 10) == [partitions[3]]
    context.set_assignment(partitions[0], ReplicaAssignment((1, 2, 3), adding=(3,)))
    assert election.out_of_balance(context, 10) == []
    context.set_assignment(partitions[0], ReplicaAssignment((1, 2)))
    assert election.out_of_balance(context, 10) == [partitions[3]]
    context.topics_to_delete.add("t")
    assert election.out_of_balance(context, 10) == []


def test_a_broker_that_shuts_down_gets_no_leadership_back() -> None:
    context = context_of((1, 2), (1, 2), (1, 2))
    for partition in context.partitions_of("t"):
        lead(context, partition, 2, 1, 2)
    assert len(election.out_of_balance(context, 10)) == 2
    context.shutting_down.add(1)
    assert election.out_of_balance(context, 10) == []
