"""The limits of connections and of their rate, with Kafka's numbers."""

import pytest

from ottla.broker.config.connection_limits import ConnectionLimits, Limits
from ottla.broker.net.connection_counts import ConnectionQuotas, CreationRate, TooManyConnections


def quotas(broker: Limits, *, a: Limits = Limits(), b: Limits = Limits(), inter: str = "B") -> ConnectionQuotas:  # noqa: B008
    return ConnectionQuotas(ConnectionLimits(broker, {"A": a, "B": b}, inter_broker_listener=inter))


def test_without_bounds_there_is_always_room() -> None:
    unbounded = ConnectionQuotas(ConnectionLimits())
    for _ in range(1000):
        assert unbounded.has_slot("PLAINTEXT")
        assert unbounded.delay_ms("PLAINTEXT", 0) == 0
        unbounded.add("PLAINTEXT", "::1")


def test_the_bound_of_the_broker_holds_for_all_but_the_inter_broker_listener() -> None:
    counts = quotas(Limits(connections=1))
    assert not counts.is_full()
    counts.add("A", "::1")
    assert counts.is_full()
    assert (counts.has_slot("A"), counts.has_slot("B")) == (False, True)
    counts.remove("A", "::1")
    assert counts.has_slot("A")


def test_the_only_listener_is_not_protected() -> None:
    counts = ConnectionQuotas(ConnectionLimits(Limits(connections=0), {"B": Limits()}, inter_broker_listener="B"))
    assert not counts.is_protected("B")
    assert not counts.has_slot("B")


def test_the_bound_of_a_listener_holds_for_the_inter_broker_listener_too() -> None:
    counts = quotas(Limits(), a=Limits(connections=2), b=Limits(connections=1))
    counts.add("B", "::1")
    assert (counts.has_slot("A"), counts.has_slot("B")) == (True, False)


def test_an_address_may_have_a_bound_of_its_own() -> None:
    counts = ConnectionQuotas(ConnectionLimits(per_ip=1, per_ip_overrides={"10.0.0.1": 2, "10.0.0.2": 0}))
    for address, bound in (("10.0.0.1", 2), ("10.0.0.2", 0), ("10.0.0.3", 1)):
        for _ in range(bound):
            counts.add("A", address)
        with pytest.raises(TooManyConnections, match=f"{address}, address already has .* maximum of {bound}"):
            counts.add("A", address)
    counts.remove("A", "10.0.0.3")
    counts.add("A", "10.0.0.3")


def test_a_refused_connection_is_not_counted() -> None:
    counts = ConnectionQuotas(ConnectionLimits(Limits(connections=1), per_ip=0))
    with pytest.raises(TooManyConnections):
        counts.add("A", "::1")
    assert counts.has_slot("A")


def test_the_longer_of_the_delays_of_listener_and_broker_counts() -> None:
    counts = quotas(Limits(creation_rate=1), a=Limits(creation_rate=10**6))
    assert [counts.delay_ms("A", 0) for _ in range(12)][-2:] == [1000, 1000]
    counts = quotas(Limits(creation_rate=10**6), a=Limits(creation_rate=1))
    assert [counts.delay_ms("A", 0) for _ in range(12)][-1] == 1000


def test_connections_of_brokers_do_not_count_for_the_rate_of_the_broker() -> None:
    counts = quotas(Limits(creation_rate=1))
    assert [counts.delay_ms("B", 0) for _ in range(100)] == [0] * 100
    assert counts.delay_ms("A", 0) == 0


def test_a_rate_takes_a_burst_of_all_windows_but_one_and_is_then_held() -> None:
    """Ten whole windows of a second are taken as past: ten a second make a hundred at once."""
    rate = CreationRate(10, 11, 1000)
    assert [rate.record(0) for _ in range(100)] == [0] * 100
    # 101 in 10 s are 10.1 a second, a hundredth too many: the pause is a hundredth of the 10 s.
    assert rate.record(0) == pytest.approx(100)
    assert rate.record(100) == pytest.approx(100)


def test_a_delay_is_one_window_at_most() -> None:
    rate = CreationRate(10, 11, 1000)
    assert [rate.record(0) for _ in range(1000)][-1] == 1000
    assert CreationRate(0, 11, 1000).record(0) == 1000


def test_connections_older_than_the_windows_do_not_count() -> None:
    rate = CreationRate(10, 3, 1000)
    for _ in range(20):
        assert rate.record(0) == 0
    assert rate.record(0) > 0
    assert rate.record(2999) == 0
    assert [rate.record(6000) for _ in range(20)] == [0] * 20
    assert rate.record(6000) > 0


def test_a_listener_that_pauses_for_the_delay_stays_within_the_rate() -> None:
    rate = CreationRate(50, 11, 1000)
    now, count = 0.0, 0
    while now < 1_000_000:
        count += 1
        now += rate.record(now)
    assert 49 < count / 1000 < 51


def test_other_bounds_hold_from_the_next_connection_on() -> None:
    counts = quotas(Limits(connections=1))
    counts.add("A", "::1")
    assert not counts.has_slot("A")
    counts.use(ConnectionLimits(Limits(connections=2), {"A": Limits(), "B": Limits()}, inter_broker_listener="B"))
    assert counts.has_slot("A")
    counts.add("A", "::1")
    counts.use(ConnectionLimits(Limits(connections=1), {"A": Limits(), "B": Limits()}, inter_broker_listener="B"))
    assert not counts.has_slot("A")
