"""The limit of a request's elements, and arrays that take no memory beyond their frame.

An object takes many times its bytes on the wire: two bytes of a frame make an empty name, and objects of thirty times
that size. Therefore the decoder counts the elements of a large request. An array of many elements becomes a view of the
frame, which decodes its elements again in each iteration. Must not know a message.
No counterpart in Kafka, whose requests take memory without a limit.
"""

from collections.abc import Callable, Iterator, Sequence
from itertools import islice
from typing import Any, Final, overload

from ottla.wire.errors import DecodeError

# The elements of a frame up to this size are not counted, because they are too few to matter.
SMALL_FRAME: Final = 1 << 15
# The most elements that are decoded at once, on the loop.
FEW_ELEMENTS: Final = 4096
# The most elements that one element of a larger request may keep.
_KEPT_ELEMENTS: Final = 1024
# The most elements of one request. Kafka's clusters have up to 200,000 partitions, each with a few replicas.
MAX_ELEMENTS: Final = 1_000_000

# `read(buf, pos, limit, budget)` returns an element and the position behind it.
Reader = Callable[[memoryview, int, int, "Budget"], tuple[Any, int]]


class ManyElements(DecodeError):  # noqa: N818
    """A request has more elements than its budget."""


class Budget:
    """The numbers of elements that a request may still have, and that its decoder may still keep."""

    __slots__ = ("_elements", "_kept_of_each", "_left", "kept")

    def __init__(self, elements: int, kept: int, kept_of_each: int) -> None:
        self._elements = self._left = elements
        self._kept_of_each = kept_of_each
        self.kept = kept

    def spend(self, count: int) -> None:
        """Count elements. ManyElements: the budget is exceeded."""
        self._left -= count
        if self._left < 0:
            raise ManyElements(f"more than {self._elements} elements")

    def keep(self, count: int) -> bool:
        """Count the elements of an array; return whether the decoder may keep them."""
        self.spend(count)
        if count > self.kept:
            return False
        self.kept -= count
        return True

    def renew(self) -> None:
        """Reset the kept elements for the next element of an array that is not kept."""
        self.kept = self._kept_of_each


def few() -> Budget:
    """Return the budget of a request that is decoded at once."""
    return Budget(FEW_ELEMENTS, FEW_ELEMENTS, 0)


def many() -> Budget:
    """Return the budget of a request of many elements: none of its arrays is kept."""
    return Budget(MAX_ELEMENTS, 0, _KEPT_ELEMENTS)


class LargeArray(Sequence[Any]):
    """A view of the elements in a frame; `end` has checked them."""

    __slots__ = ("_buf", "_count", "_limit", "_read", "_start")
    __hash__ = None  # type: ignore[assignment]

    def __init__(self, read: Reader, buf: memoryview, start: int, limit: int, count: int) -> None:
        self._read = read
        self._buf = buf
        self._start = start
        self._limit = limit
        self._count = count

    def end(self, budget: Budget) -> int:
        """Check the elements; return the position behind them."""
        kept, end = budget.kept, self._start
        for _, position in self._walk(budget):
            end = position
        budget.kept = kept
        return end

    def _walk(self, budget: Budget) -> Iterator[tuple[Any, int]]:
        read, buf, pos, limit = self._read, self._buf, self._start, self._limit
        for _ in range(self._count):
            budget.renew()
            item, pos = read(buf, pos, limit, budget)
            yield item, pos

    def __iter__(self) -> Iterator[Any]:
        return (item for item, _ in self._walk(many()))

    def __len__(self) -> int:
        return self._count

    @overload
    def __getitem__(self, index: int) -> Any: ...
    @overload
    def __getitem__(self, index: slice) -> Sequence[Any]: ...
    def __getitem__(self, index: int | slice) -> Any:
        chosen = range(self._count)[index]
        if isinstance(chosen, range):
            return [self[each] for each in chosen]
        return next(islice(self, chosen, None))

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, list | tuple | LargeArray):
            return NotImplemented
        return len(self) == len(other) and all(one == another for one, another in zip(self, other, strict=True))

    def __repr__(self) -> str:
        return f"<{self._count} elements>"


def read_array(
    read: Reader, buf: memoryview, pos: int, limit: int, count: int, budget: Budget
) -> tuple[Sequence[Any], int]:
    """Return the array at `pos`, and the position behind it."""
    if not budget.keep(count):
        array = LargeArray(read, buf, pos, limit, count)
        return array, array.end(budget)
    items = []
    for _ in range(count):
        item, pos = read(buf, pos, limit, budget)
        items.append(item)
    return items, pos
