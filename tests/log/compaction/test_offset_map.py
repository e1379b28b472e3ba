import tracemalloc

from ottla.log.compaction.offset_map import BYTES_PER_KEY, OffsetMap, keys_that_fit


def test_the_newest_offset_of_a_key_of_any_length_is_found() -> None:
    offsets = OffsetMap(100)
    keys = [b"k" * length for length in range(60)]
    for offset, key in enumerate(keys + keys[::2]):
        offsets.put(key, offset)
    assert [offsets.get(key) for key in keys] == [
        60 + number // 2 if number % 2 == 0 else number for number in range(60)
    ]
    assert offsets.get(b"other") == offsets.get(b"other" * 9) == -1
    assert (len(offsets), offsets.latest_offset, offsets.is_full, offsets.utilization) == (60, 89, False, 0.6)


def test_a_map_is_full_at_its_capacity() -> None:
    offsets = OffsetMap(2)
    offsets.put(b"a", 1)
    assert not offsets.is_full
    offsets.put(b"b", 2)
    assert offsets.is_full


def test_a_map_takes_no_more_memory_than_bytes_per_key() -> None:
    assert keys_that_fit(0, 0.9) == 1
    assert keys_that_fit(BYTES_PER_KEY * 1000, 0.5) == 500
    # A key takes the most memory just after the table has grown.
    count = 43_700
    tracemalloc.start()
    offsets = OffsetMap(count)
    for number in range(count):
        offsets.put(b"%032d" % number, 10**6 + number)
    taken = tracemalloc.get_traced_memory()[0]
    tracemalloc.stop()
    assert taken <= count * BYTES_PER_KEY
