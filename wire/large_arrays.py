"""What a request may hold, and arrays that take no memory but that of their frame.

A value costs many times the bytes that announce it: two bytes of a frame make an empty name, and thirty times as much
of objects. So the elements of a large request are counted while it is decoded, and where there are many of them they
are not kept: an array of them is a view that reads them anew whenever somebody goes through it. Knows no message.
No counterpart in Kafka, whose requests take as much memory as they like.
"""

from collections.abc import Callable, Iterator, Sequence
from itertools import islice
from typing import Any, Final, overload

from ottla.wire.errors import DecodeError

# A frame of this size cannot hold enough elements to matter: they are not even counted.
SMALL_FRAME: Final = 1 << 15
# What is decoded at once, on the loop.
FEW_ELEMENTS: Final = 4096
# What is kept of an element of a request of more.
_KEPT_ELEMENTS: Final = 1024
# What one request may hold in all. Kafka's clusters end at 200,000 partitions, each with a few replicas.
MAX_ELEMENTS: Final = 1_000_000

# `read(buf, pos, limit, budget)`: an element, and the position behind it.
Reader = Callable[[memoryview, int, int, "Budget"], tuple[Any, int]]


class ManyElements(DecodeError):  # noqa: N818
    """A request holds more elements than are decoded in this way."""


class Budget:
    """How many elements may still come, and how many may be kept: of the request, and of each that is not kept."""

    __slots__ = ("_elements", "_kept_of_each", "_left", "kept")

    def __init__(self, elements: int, kept: int, kept_of_each: int) -> None:
        self._elements = self._left = elements
        self._kept_of_each = kept_of_each
        self.kept = kept

    def spend(self, count: int) -> None:
        """Take note of elements. ManyElements if they are too many."""
        self._left -= count
        if self._left < 0:
            raise ManyElements(f"more than {self._elements} elements")

    def keep(self, count: int) -> bool:
        """As `spend`; says whether the elements of an array may be kept."""
        self.spend(count)
        if count > self.kept:
            return False
        self.kept -= count
        return True

    def renew(self) -> None:
        """The next element of an array that is not kept may keep as much as the one before."""
        self.kept = self._kept_of_each


def few() -> Budget:
    """For a request that is decoded at once."""
    return Budget(FEW_ELEMENTS, FEW_ELEMENTS, 0)


def many() -> Budget:
    """For a request of many elements: no array of it is kept."""
    return Budget(MAX_ELEMENTS, 0, _KEPT_ELEMENTS)


class LargeArray(Sequence[Any]):
    """Elements in a frame. They have been read once, so that nothing can be wrong with them."""

    __slots__ = ("_buf", "_count", "_limit", "_read", "_start")
    __hash__ = None  # type: ignore[assignment]

    def __init__(self, read: Reader, buf: memoryview, start: int, limit: int, count: int) -> None:
        self._read = read
        self._buf = buf
        self._start = start
        self._limit = limit
        self._count = count

    def end(self, budget: Budget) -> int:
        """Go through the elements; the position behind them."""
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
    """An array that begins at `pos`, and the position behind it."""
    if not budget.keep(count):
        array = LargeArray(read, buf, pos, limit, count)
        return array, array.end(budget)
    items = []
    for _ in range(count):
        item, pos = read(buf, pos, limit, budget)
        items.append(item)
    return items, pos
