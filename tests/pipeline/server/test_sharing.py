"""Who gets which slots."""

from collections.abc import Mapping

from hypothesis import given
from hypothesis import strategies as st

from ottla.pipeline.server.sharing import Claim, share

SLOTS = 12
NOTHING = Claim(frozenset(), -1)


def settled(claims: Mapping[str, Claim], jobs: list[int]) -> dict[str, set[int]]:
    """What comes of it when those who give something up have done so, and all have joined again."""
    for generation in range(10, 14):
        shares = share(claims, jobs)
        had, claims = claims, {member: Claim(frozenset(slots), generation) for member, slots in shares.items()}
        if {member: claim.slots for member, claim in had.items()} == shares:
            return shares
    raise AssertionError("slots go to and fro")


def claim(*slots: int, generation: int = 1) -> Claim:
    return Claim(frozenset(slots), generation)


def loads(shares: Mapping[str, set[int]], jobs: list[int]) -> list[int]:
    return sorted(sum(jobs[slot] for slot in slots) for slots in shares.values())


def test_one_server_has_all() -> None:
    assert share({"a": NOTHING}, [0] * SLOTS) == {"a": set(range(SLOTS))}


def test_jobs_are_shared_evenly_and_so_are_slots_without_jobs() -> None:
    jobs = [1, 1, 1, 1, *[0] * 8]
    shares = share({"a": NOTHING, "b": NOTHING}, jobs)
    assert loads(shares, jobs) == [2, 2]
    assert sorted(map(len, shares.values())) == [6, 6]


def test_what_moves_is_nobodys_until_it_was_given_up() -> None:
    jobs = [1, 1, 1, 1, *[0] * 8]
    claims = {"a": claim(*range(SLOTS)), "b": NOTHING}
    first = share(claims, jobs)
    assert first["b"] == set()
    assert (loads(first, jobs), len(first["a"])) == ([0, 2], 6)
    shares = settled(claims, jobs)
    assert first["a"] == shares["a"]
    assert shares["b"] == set(range(SLOTS)) - shares["a"]


def test_what_a_dead_server_had_goes_to_the_others_and_nothing_else_moves() -> None:
    jobs = [1] * SLOTS
    shares = share({"a": claim(0, 1, 2, 3), "b": claim(4, 5, 6, 7)}, jobs)
    assert shares["a"] >= {0, 1, 2, 3}
    assert shares["b"] >= {4, 5, 6, 7}
    assert loads(shares, jobs) == [6, 6]


def test_who_was_thrown_out_has_nothing_whatever_it_thinks() -> None:
    jobs = [1] * 4
    shares = share({"a": claim(0, 1, 2, 3, generation=1), "b": claim(0, 1, 2, 3, generation=2)}, jobs)
    assert shares["a"] == set()
    assert len(shares["b"]) == 2


def test_slots_that_are_not_there_are_nobodys() -> None:
    assert share({"a": claim(3, 99)}, [0] * 4) == {"a": {0, 1, 2, 3}}


CLAIMS = st.dictionaries(
    st.sampled_from("abcde"),
    st.builds(Claim, st.frozensets(st.integers(0, SLOTS - 1)), st.integers(-1, 5)),
    min_size=1,
)
JOBS = st.lists(st.integers(0, 3), min_size=SLOTS, max_size=SLOTS)


@given(CLAIMS, JOBS)
def test_no_slot_has_two_owners_and_soon_each_has_one_and_keeps_it(claims: dict[str, Claim], jobs: list[int]) -> None:
    for shares in (share(claims, jobs), settled(claims, jobs)):
        given = [slot for slots in shares.values() for slot in slots]
        assert len(given) == len(set(given))
    assert sorted(given) == list(range(SLOTS))


@given(CLAIMS, st.lists(st.integers(0, 1), min_size=SLOTS, max_size=SLOTS))
def test_where_slots_have_a_job_at_most_no_server_has_two_more_than_another(
    claims: dict[str, Claim], jobs: list[int]
) -> None:
    least, *_, most = [*loads(settled(claims, jobs), jobs)] * 2
    assert most - least <= 1
