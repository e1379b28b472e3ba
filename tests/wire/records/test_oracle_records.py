"""Kafka's Java classes and ours read each other's batches, and validate produced batches alike."""

import random
from collections.abc import Callable, Iterator
from struct import pack_into
from typing import Any

import pytest

from compat_tests.support.jars import SPECIFICATIONS, ZOOKEEPER_BROKER
from ottla.wire.errors import KafkaError
from ottla.wire.records.batch import (
    Compression,
    ControlType,
    InvalidRecordsError,
    NewRecord,
    Record,
    RecordRules,
    TimestampType,
    build_batch,
    build_control_batch,
    build_marker,
    crc_is_valid,
    end_transaction_marker,
    iter_records,
    parse_header,
    place,
    recompressed,
    validate_produced,
)
from ottla.wire.records.batch_header import HEADER_SIZE, checksum
from ottla.wire.records.compression import compress
from tests.wire.records.records_oracle import Java

pytestmark = pytest.mark.slow

NOW = 1_700_000_000_000
ANY = 2**63 - 1


@pytest.fixture(scope="module", params=SPECIFICATIONS, ids=lambda coordinates: coordinates.rpartition(":")[2])
def kafka(request: pytest.FixtureRequest) -> Iterator[Java]:
    with Java("RecordsOracle", request.param) as java:
        yield java


@pytest.fixture(scope="module")
def validator() -> Iterator[Java]:
    with Java("ValidationOracle", ZOOKEEPER_BROKER) as java:
        yield java


def hexed(value: bytes | None) -> str:
    return "-" if value is None else value.hex()


def word(record: Record) -> str:
    headers = "".join(f"{key.encode().hex()}={hexed(value)};" for key, value in record.headers)
    return f"{record.offset},{record.timestamp},{hexed(record.key)},{hexed(record.value)},{headers}"


def words(batch: bytes) -> list[str]:
    """Return the expected output of the oracle for a batch."""
    header = parse_header(batch)
    values = [
        header.base_offset, header.size, header.partition_leader_epoch, header.magic, header.crc,
        int(header.compression), int(header.timestamp_type), header.is_transactional, header.is_control,
        header.has_delete_horizon, header.last_offset, header.next_offset, header.base_timestamp,
        header.max_timestamp, header.producer_id, header.producer_epoch, header.base_sequence,
        header.last_sequence, header.has_producer_id, header.record_count,
    ]  # fmt: skip
    texts = [str(value).lower() for value in values]
    for record in iter_records(batch):
        texts.append(word(record))
        if header.is_control:
            marker = end_transaction_marker(batch)
            texts += [marker.control_type.name, str(marker.coordinator_epoch)]
    return texts


def random_bytes(chance: random.Random) -> bytes | None:
    size = chance.choice((None, 0, 1, 5, 63, 64, 300, 9000))
    return None if size is None else chance.choice((chance.randbytes(size), bytes(size)))


def random_record(chance: random.Random, offset: int) -> Record:
    keys = ("", "h", "ключ", "k" * 100)
    headers = tuple((chance.choice(keys), random_bytes(chance)) for _ in range(chance.choice((0, 0, 1, 3))))
    timestamp = NOW + chance.randrange(-1000, 1000)
    return Record(offset, timestamp, random_bytes(chance), random_bytes(chance), headers)


def random_batch(chance: random.Random) -> tuple[list[Record], dict[str, Any]]:
    base_offset = chance.choice((0, 5, 2**40))
    records = [random_record(chance, base_offset + number) for number in range(chance.choice((1, 1, 2, 30)))]
    fields: dict[str, Any] = {
        "compression": chance.choice(list(Compression)),
        "base_offset": base_offset,
        "leader_epoch": chance.choice((-1, 0, 7)),
    }
    if chance.random() < 0.5:
        fields |= {"producer_id": 2**50, "producer_epoch": 3, "base_sequence": chance.choice((0, 2**31 - 3))}
        fields["transactional"] = chance.random() < 0.5
    return records, fields


@pytest.mark.trials(few=50, soak=250)
def test_kafka_reads_our_batches(kafka: Java, trials: int, seed: int) -> None:
    chance = random.Random(seed)
    for _ in range(trials):
        records, fields = random_batch(chance)
        batch = build_batch(records, **fields)
        answer = kafka.ask("read", batch.hex())
        assert answer == words(bytes(batch))
        assert answer[20:] == [word(record) for record in records]


@pytest.mark.trials(few=50, soak=250)
def test_we_read_kafkas_batches(kafka: Java, trials: int, seed: int) -> None:
    chance = random.Random(seed)
    for _ in range(trials):
        records, fields = random_batch(chance)
        batch = java_batch(kafka, records, TimestampType.CREATE_TIME, **fields)
        assert crc_is_valid(batch)
        assert list(iter_records(batch)) == records
        assert kafka.ask("read", batch.hex()) == words(batch)


def java_batch(kafka: Java, records: list[Record], kind: TimestampType, **fields: Any) -> bytes:
    place_and_producer = [
        fields.get(name, default)
        for name, default in {
            "base_offset": 0, "leader_epoch": -1, "producer_id": -1, "producer_epoch": -1, "base_sequence": -1,
        }.items()
    ]  # fmt: skip
    transactional = str(fields.get("transactional", False)).lower()
    start = (int(fields["compression"]), int(kind), NOW, *place_and_producer, transactional)
    return bytes.fromhex(kafka.ask("build", *start, *map(word, records))[0])


@pytest.mark.trials(few=10, soak=50)
def test_uncompressed_batches_are_byte_for_byte_those_of_kafka(kafka: Java, trials: int, seed: int) -> None:
    chance = random.Random(seed)
    for _ in range(trials):
        records, fields = random_batch(chance)
        fields["compression"] = Compression.NONE
        assert build_batch(records, **fields) == java_batch(kafka, records, TimestampType.CREATE_TIME, **fields)


@pytest.mark.parametrize("codec", Compression)
def test_a_large_batch_passes_both_ways(kafka: Java, codec: Compression) -> None:
    chance = random.Random(1)
    records = [Record(n, NOW, b"k", chance.randbytes(500) * 4, (("h", None),)) for n in range(400)]
    batch = build_batch(records, compression=codec)
    assert kafka.ask("read", batch.hex())[20:] == list(map(word, records))
    assert list(iter_records(java_batch(kafka, records, TimestampType.CREATE_TIME, compression=codec))) == records


@pytest.mark.parametrize("codec", Compression)
def test_with_log_append_time_all_records_have_the_time_of_the_batch(kafka: Java, codec: Compression) -> None:
    records = [Record(n, NOW - n, b"k", None) for n in range(3)]
    batch = java_batch(kafka, records, TimestampType.LOG_APPEND_TIME, compression=codec)
    assert [record.timestamp for record in iter_records(batch)] == [NOW] * 3
    assert kafka.ask("read", batch.hex()) == words(batch)


@pytest.mark.parametrize("kind", [ControlType.COMMIT, ControlType.ABORT])
def test_markers_are_byte_for_byte_those_of_kafka(kafka: Java, kind: ControlType) -> None:
    ours = build_control_batch(
        kind, producer_id=9, producer_epoch=2, coordinator_epoch=31, timestamp=NOW, base_offset=77, leader_epoch=4
    )
    assert ours.hex() == kafka.ask("marker", kind.name, 31, 9, 2, NOW, 77, 4)[0]
    assert build_marker(9, 2, kind, 31, NOW).hex() == kafka.ask("marker", kind.name, 31, 9, 2, NOW, 0, -1)[0]
    assert kafka.ask("read", ours.hex()) == words(bytes(ours))


# Produced batches: mutated, and validated by Kafka and by us.

Mutation = Callable[[random.Random, bytearray], bytearray]

FIELDS = {"base_offset": (0, ">q"), "leader_epoch": (12, ">i"), "last_offset_delta": (23, ">i"),
          "base_timestamp": (27, ">q"), "max_timestamp": (35, ">q"), "producer_id": (43, ">q"),
          "producer_epoch": (51, ">h"), "base_sequence": (53, ">i"), "record_count": (57, ">i")}  # fmt: skip


def sealed(batch: bytearray) -> bytearray:
    if len(batch) > HEADER_SIZE:
        pack_into(">I", batch, 17, checksum(batch))
    return batch


def change_field(chance: random.Random, batch: bytearray) -> bytearray:
    position, form = FIELDS[chance.choice(list(FIELDS))]
    pack_into(form, batch, position, chance.choice((-1, 0, 1, 2, 3, 4, -2, 100, 2**15 - 1)))
    return sealed(batch)


def change_attributes(chance: random.Random, batch: bytearray) -> bytearray:
    batch[22] ^= 1 << chance.choice((3, 3, 4, 5, 6, 7))
    if chance.random() < 0.2:
        batch[21] = chance.randrange(256)
    return sealed(batch)


def change_codec(chance: random.Random, batch: bytearray) -> bytearray:
    batch[22] = batch[22] & 0xF8 | chance.randrange(8)
    return sealed(batch)


def change_time(chance: random.Random, batch: bytearray) -> bytearray:
    near = NOW + chance.choice((-5000, -1001, -1000, 0, 1000, 1001, 5000))
    pack_into(">q", batch, 27, chance.choice((near, near, -1, 0, -5, 2**62, -(2**62))))
    return sealed(batch)


def change_length(chance: random.Random, batch: bytearray) -> bytearray:
    length = int.from_bytes(batch[8:12], "big") + chance.choice((-1, 1, -20, 20))
    pack_into(">i", batch, 8, chance.choice((length, 0, -1, 13, 14, 48, 49, 2**31 - 1, -(2**31))))
    return sealed(batch)


def change_magic(chance: random.Random, batch: bytearray) -> bytearray:
    batch[16] = chance.choice((0, 1, 3, 127, 255))
    return batch


def change_checksum(chance: random.Random, batch: bytearray) -> bytearray:
    batch[chance.randrange(17, len(batch))] ^= 1 << chance.randrange(8)
    return batch


def cut(chance: random.Random, batch: bytearray) -> bytearray:
    return batch[: chance.randrange(len(batch))]


def append(chance: random.Random, batch: bytearray) -> bytearray:
    junk = chance.randbytes(chance.randrange(30))
    return batch + chance.choice((batch, batch[:-1], batch[:16], batch[:17], bytes(10), bytes(12), junk))


def change_records(chance: random.Random, batch: bytearray) -> bytearray:
    """Mutate an uncompressed batch, because `compressed` comes later."""
    for _ in range(chance.choice((1, 1, 2))):
        position = chance.randrange(HEADER_SIZE, len(batch))
        batch[position] = chance.choice(
            (0, 1, 2, 0x7E, 0x7F, 0x80, 0xFF, batch[position] ^ 2, batch[position] + 2 & 255)
        )
    return sealed(batch)


def leave(chance: random.Random, batch: bytearray) -> bytearray:
    return batch


def compressed(codec: Compression, batch: bytearray) -> bytearray:
    out = batch[:HEADER_SIZE] + compress(codec, batch[HEADER_SIZE:])
    out[22] = out[22] & 0xF8 | codec
    pack_into(">i", out, 8, len(out) - 12)
    return sealed(out)


INSIDE: list[Mutation] = [leave, leave, change_records, change_records]
OUTSIDE: list[Mutation] = [leave, leave, leave, change_field, change_attributes, change_codec, change_time,
                           change_length, change_magic, change_checksum, cut, append]  # fmt: skip


def produced(chance: random.Random) -> bytearray:
    count = chance.choice((1, 1, 2, 3, 5))
    records = [
        NewRecord(
            chance.choice((b"k", b"k", None)),
            chance.choice((b"value", None)),
            NOW + chance.choice((0, 0, 1, 900, -900, 1100, -1100)) if chance.random() < 0.5 else NOW,
            chance.choice(((), (("h", b"v"), ("", None)))),
        )
        for _ in range(count)
    ]
    fields: dict[str, int] = {}
    if chance.random() < 0.3:
        fields = {"producer_id": 7, "producer_epoch": 0, "base_sequence": 0}
    batch = chance.choice(INSIDE)(chance, build_batch(records, **fields))  # type: ignore[arg-type]
    batch = compressed(chance.choice(list(Compression)), batch)
    return chance.choice(OUTSIDE)(chance, batch)


def random_rules(chance: random.Random) -> RecordRules:
    bounds = chance.choice(((ANY, ANY), (1000, 1000), (1000, ANY)))
    kind = chance.choice((TimestampType.CREATE_TIME, TimestampType.CREATE_TIME, TimestampType.LOG_APPEND_TIME))
    return RecordRules(chance.random() < 0.3, kind, *bounds, chance.choice((10**6, 10**6, 10**6, 100)))


def judged_by_kafka(validator: Java, batch: bytearray, version: int, rules: RecordRules) -> list[str]:
    limits = (rules.before_max_ms, rules.after_max_ms, rules.max_message_bytes)
    codec = "-" if rules.compression is None else int(rules.compression)
    return validator.ask(version, int(rules.compacted), int(rules.timestamp_type), *limits, NOW, codec, batch.hex())


def judged_by_us(batch: bytearray, version: int, rules: RecordRules) -> list[str]:
    data = memoryview(bytearray(batch))
    try:
        valid = recompressed(validate_produced(data, api_version=version, rules=rules, now_ms=NOW), rules)
    except InvalidRecordsError as error:
        return [str(int(error.code)), "".join(f"{index}," for index, _ in error.record_errors)]
    except KafkaError as error:
        return [str(int(error.code))]
    assert valid.header == parse_header(valid.data)
    assert valid.header.size == len(valid.data)
    place(valid.data, 100, 5)
    return ["0", str(valid.max_timestamp), valid.data.hex()]


def as_we_answer(theirs: list[str], ours: list[str], batch: bytearray) -> list[str]:
    """Return Kafka's answer, with the differences that `record_validation` lists."""
    is_compressed = len(batch) > HEADER_SIZE and batch[22] & 7 != 0
    if theirs == ["-1"]:
        return ours if ours in (["87"], ["10"], ["2"]) else ["87"]
    if is_compressed and ours == ["87"] and not is_readable(batch):
        return ["87"]  # Kafka looks past lengths that contradict each other
    if theirs[0] == "0" == ours[0] and not is_compressed and not in_order(bytes.fromhex(theirs[2])):
        assert in_order(bytes.fromhex(ours[2]))
        return [*theirs[:2], ours[2]]
    return theirs


def is_readable(batch: bytearray) -> bool:
    try:
        return len(list(iter_records(batch))) > 0
    except KafkaError:
        return False


def in_order(batch: bytes) -> bool:
    return [record.offset for record in iter_records(batch)] == list(range(100, 100 + parse_header(batch).record_count))


@pytest.mark.trials(few=1000, soak=5000)
def test_mutated_batches_are_judged_as_kafka_does(validator: Java, trials: int, seed: int) -> None:
    chance = random.Random(seed)
    codes: dict[str, int] = {}
    for _ in range(trials):
        batch = produced(chance)
        rules = random_rules(chance)
        version = chance.choice((3, 9, 9))
        theirs = judged_by_kafka(validator, batch, version, rules)
        ours = judged_by_us(batch, version, rules)
        assert ours == as_we_answer(theirs, ours, batch), (theirs, rules, version, batch.hex())
        codes[ours[0]] = codes.get(ours[0], 0) + 1
    assert codes.keys() >= {"0", "2", "10", "32", "76", "87"}, codes


@pytest.mark.parametrize("codec", [codec for codec in Compression if codec])
def test_both_refuse_contradictory_compressed_records_except_contradictory_lengths(
    validator: Java, codec: Compression
) -> None:
    rules = RecordRules(False, TimestampType.CREATE_TIME, ANY, ANY, 10**6)
    plain = build_batch([NewRecord(b"key", b"value", NOW)] * 2)
    verdicts = set()
    for position in range(HEADER_SIZE, len(plain)):
        for value in (0, 1, 0x7F, 0x80, 0xFF):
            changed = plain.copy()
            changed[position] = value
            batch = compressed(codec, changed)
            theirs, ours = judged_by_kafka(validator, batch, 9, rules)[0], judged_by_us(batch, 9, rules)[0]
            verdicts.add((theirs, ours))
    assert verdicts <= {("0", "0"), ("87", "87"), ("0", "87"), ("-1", "87")}


@pytest.mark.trials(few=200, soak=1000)
def test_batches_come_in_another_codec_as_from_kafka(validator: Java, trials: int, seed: int) -> None:
    chance = random.Random(seed)
    codes: dict[str, int] = {}
    for _ in range(trials):
        batch = produced(chance)
        rules = random_rules(chance)._replace(compression=chance.choice(list(Compression)))
        theirs = judged_by_kafka(validator, batch, 9, rules)
        ours = judged_by_us(batch, 9, rules)
        if theirs == ["-1"] and ours[0] == "0":
            continue  # Kafka keeps negative timestamps and odd producer ids, but cannot encode them again
        if ["10"] in (theirs, ours) and ours != theirs and rules.compression:
            continue  # their encoders need a few bytes more or less
        if theirs[0] == "0" and batch[22] & 7 != rules.compression:
            if ours == ["87"] and is_readable(batch) and not is_numbered(batch):
                continue  # Kafka renumbers compressed records here, and only here
            if ours[0] == "0":
                assert ours[1] == theirs[1]
                was_stamped = batch[22] & 8 != 0 and rules.timestamp_type is TimestampType.CREATE_TIME
                assert told(ours[2], was_stamped) == told(theirs[2], was_stamped), (rules, batch.hex())
                ours = theirs
        assert ours[0] == as_we_answer(theirs, ours, batch)[0], (theirs, rules, batch.hex())
        codes[ours[0]] = codes.get(ours[0], 0) + 1
    assert codes.keys() >= {"0", "2", "10", "32", "87"}, codes


def told(data: str, was_stamped: bool) -> tuple[Any, ...]:
    """Return the content of a batch for its readers, and for the log.

    Where a client had stamped a whole batch with one time, and the topic wants none, Kafka gives that to all records
    when it writes them anew, but not when it keeps them. Here they have their own times in both cases.
    """
    batch = bytes.fromhex(data)
    assert crc_is_valid(batch)
    header = parse_header(batch)._replace(batch_length=0, crc=0, base_timestamp=0)
    return header, [each._replace(timestamp=0) if was_stamped else each for each in iter_records(batch)]


def is_numbered(batch: bytearray) -> bool:
    return all(record.offset == number for number, record in enumerate(iter_records(batch)))
