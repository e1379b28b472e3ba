"""The offsets of transactions are loaded as Kafka loads them."""

from typing import Any

from hypothesis import example, given
from hypothesis import strategies as st

from ottla.coordinator.open_transactions import OpenTransactions

KEYS = (b"a", b"b")
PRODUCERS = (0, 1, 2)
VALUES = st.sampled_from([None, b"1", b"2"])
STEPS = st.lists(
    st.one_of(
        st.tuples(st.just("plain"), st.sampled_from(KEYS), VALUES),
        st.tuples(st.just("write"), st.sampled_from(PRODUCERS), st.sampled_from(KEYS), VALUES),
        st.tuples(st.just("end"), st.sampled_from(PRODUCERS), st.booleans()),
    ),
    max_size=30,
)


class AsKafka:
    """Kafka's way: all committed and all pending values with their offsets. The newer offset counts."""

    def __init__(self) -> None:
        self.loaded: dict[bytes, tuple[int, bytes]] = {}
        self.pending: dict[int, dict[bytes, tuple[int, bytes]]] = {each: {} for each in PRODUCERS}

    def plain(self, offset: int, key: bytes, value: bytes | None) -> None:
        self.loaded.pop(key, None)
        if value is not None:
            self.loaded[key] = offset, value

    def write(self, offset: int, producer: int, key: bytes, value: bytes | None) -> None:
        self.pending[producer].pop(key, None)
        if value is not None:
            self.pending[producer][key] = offset, value

    def end(self, _: int, producer: int, is_committed: bool) -> None:
        for key, found in self.pending[producer].items():
            if is_committed and (key not in self.loaded or self.loaded[key] < found):
                self.loaded[key] = found
        self.pending[producer] = {}


@given(STEPS)
@example([("write", 0, b"a", b"1"), ("plain", b"a", b"2"), ("end", 0, True)])
@example([("write", 0, b"a", b"1"), ("plain", b"a", b"2"), ("plain", b"a", None), ("end", 0, True)])
@example([("write", 0, b"a", b"1"), ("write", 1, b"a", b"2"), ("end", 1, True), ("end", 0, True)])
@example([("write", 0, b"a", b"1"), ("write", 1, b"a", b"2"), ("end", 0, True), ("end", 1, True)])
def test_the_same_offsets_count_as_in_kafka(steps: list[tuple[Any, ...]]) -> None:
    kafka, ours = AsKafka(), OpenTransactions()
    counted: dict[bytes, bytes | None] = {}
    for offset, (what, *arguments) in enumerate(steps):
        getattr(kafka, what)(offset, *arguments)
        if what == "write":
            producer, key, value = arguments
            ours.write(producer, offset, key, value)
        elif what == "end":
            producer, is_committed = arguments
            counted |= ours.end(producer, is_committed=is_committed)
        else:
            key, value = arguments
            counted[key] = value
            ours.count(offset, key, value)
    decided = {key: value for key, value in counted.items() if value is not None}
    assert decided == {key: value for key, (_, value) in kafka.loaded.items()}
    assert set(ours) == {producer for producer, found in kafka.pending.items() if found}
