"""Produced batches are recompressed as `compression.type` says."""

from ottla.broker.loop.deferred import Deferred
from ottla.log.segments.open_files import FileRegion
from ottla.wire.errors import ErrorCode
from ottla.wire.messages.produce import ProduceResponse
from ottla.wire.records.batch import Compression, iter_batches, iter_records
from tests.broker.handlers.producing import answers, codes, idempotent, now, one, request, send
from tests.broker.support.hosted import NOW_MS, TOPIC, House, batch


def stored(house: House, topic: str) -> list[tuple[Compression, list[bytes | None]]]:
    """Codec and values of each batch."""
    log = house.replicas.partition(topic, 0).log
    region = log.read(0, 1 << 20, log.log_end_offset, True)
    assert not isinstance(region, FileRegion)
    data = memoryview(region)
    return [(header.compression, [each.value for each in iter_records(one)]) for header, one in iter_batches(data)]


async def test_batches_are_stored_in_the_codec_of_their_topic(house: House) -> None:
    house.configs["zipped"] = {"compression.type": "gzip"}
    house.lead("zipped")
    for codec in Compression:
        assert codes(house, request(("zipped", 0, batch(b"a", b"b", compression=codec)))) == [0]
    assert stored(house, "zipped") == [(Compression.GZIP, [b"a", b"b"])] * 5
    assert house.offloaded == []


async def test_a_change_of_the_codec_is_in_effect_at_once(house: House) -> None:
    for name, codec in (("uncompressed", 0), ("snappy", 2), ("lz4", 3), ("zstd", 4), ("producer", 1)):
        house.configs[TOPIC] = {"compression.type": name}
        house.replicas.reconfigure(TOPIC)
        assert codes(house, one(batch(b"a", compression=Compression.GZIP))) == [0]
        assert stored(house, TOPIC)[-1][0] == codec


async def test_large_batches_are_recompressed_off_the_loop_and_mute_the_connection(house: House) -> None:
    house.configs["zipped"] = {"compression.type": "gzip"}
    house.lead("zipped")
    value = bytes(100_000)
    pending = send(house, request(("zipped", 0, batch(value))))
    assert isinstance(pending, Deferred)
    assert not pending.applied
    await house.run_tasks()
    assert len(house.offloaded) == 1
    response = pending.response
    assert isinstance(response, ProduceResponse)
    assert [found.error_code for found in answers(response)] == [0]
    assert stored(house, "zipped") == [(Compression.GZIP, [value])]


async def test_many_batches_that_are_small_each_are_recompressed_off_the_loop_too(house: House) -> None:
    for topic in (names := [f"zipped-{number}" for number in range(5)]):
        house.configs[topic] = {"compression.type": "gzip"}
        house.lead(topic)
    small = request(*((topic, 0, batch(bytes(3000))) for topic in names[:2]))
    assert codes(house, small) == [0, 0]
    assert isinstance(send(house, request(*((topic, 0, batch(bytes(3000))) for topic in names))), Deferred)
    await house.run_tasks()
    assert len(house.offloaded) == 5


async def test_a_batch_that_is_too_large_once_it_is_recompressed_is_refused(house: House) -> None:
    house.configs["plain"] = {"compression.type": "uncompressed", "max.message.bytes": "1000"}
    house.lead("plain")
    (answer,) = answers(now(house, request(("plain", 0, batch(bytes(2000), compression=Compression.GZIP)))))
    assert (answer.error_code, answer.log_start_offset) == (ErrorCode.MESSAGE_TOO_LARGE, -1)
    assert house.replicas.partition("plain", 0).high_watermark == 0


async def test_the_brokers_time_and_its_codec_go_together(house: House) -> None:
    house.configs["stamped"] = {"message.timestamp.type": "LogAppendTime", "compression.type": "zstd"}
    house.lead("stamped")
    (answer,) = answers(now(house, request(("stamped", 0, batch(b"a", timestamp=5)))))
    assert answer.log_append_time_ms == NOW_MS
    assert stored(house, "stamped") == [(Compression.ZSTD, [b"a"])]


async def test_a_duplicate_is_known_in_another_codec_too(house: House) -> None:
    house.configs[TOPIC] = {"compression.type": "lz4"}
    house.replicas.reconfigure(TOPIC)
    for _ in range(2):
        (answer,) = answers(now(house, one(idempotent(0, b"a", b"b"))))
        assert (answer.error_code, answer.base_offset) == (0, 0)
    assert stored(house, TOPIC) == [(Compression.LZ4, [b"a", b"b"])]
