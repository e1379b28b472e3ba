"""Keys have the same partitions as with Kafka's Java client."""

from collections import Counter

import pytest

from ottla.client.producing.partitioner import StickyPartition, murmur2, partition_of_key

# The values of Kafka's test of its hash.
HASHES = {
    b"21": -973932308,
    b"foobar": -790332482,
    b"a-little-bit-long-string": -985981536,
    b"a-little-bit-longer-string": -1486304829,
    b"lkjh234lh9fiuh90y23oiuhsafujhadof229phr9h19h89h8": -58897971,
    b"abc": 479470107,
}


@pytest.mark.parametrize(("key", "expected"), HASHES.items())
def test_a_key_has_the_hash_that_java_gives_it(key: bytes, expected: int) -> None:
    assert murmur2(key) == expected & 0xFFFFFFFF


def test_a_negative_hash_loses_its_sign() -> None:
    assert partition_of_key(b"foobar", 10) == (-790332482 & 0x7FFFFFFF) % 10


def test_records_without_key_stay_until_a_partition_has_its_bytes() -> None:
    order = iter([2, 0, 1])
    sticky = StickyPartition(range(3), 100, lambda available: next(order))
    assert [sticky.take(60) for _ in range(6)] == [2, 2, 0, 0, 1, 1]


def test_only_available_partitions_are_chosen() -> None:
    seen = Counter[int]()

    def last(available: object) -> int:
        assert available == [1, 3]
        return 3

    sticky = StickyPartition([1, 3], 1, last)
    seen.update(sticky.take(1) for _ in range(3))
    assert seen == {3: 3}
