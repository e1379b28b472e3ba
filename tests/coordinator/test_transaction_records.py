"""Records of __transaction_state: the bytes of Kafka, what each level writes, and what cannot be read."""

import pytest

from ottla.coordinator.transaction import State, Transaction
from ottla.coordinator.transaction_records import (
    read_transaction_key,
    read_transaction_value,
    transaction_key,
    transaction_record,
)
from ottla.wire.errors import DecodeError
from ottla.wire.types import TopicPartition

PARTITIONS = frozenset({TopicPartition("t", 7), TopicPartition("t", 0), TopicPartition("s", 3)})
FULL = Transaction(
    State.PREPARE_COMMIT, 5, 6, 7, 8, PARTITIONS, 9, previous_producer_id=4, next_producer_id=11, client_version=2
)

# Written by Kafka 3.9.2, and the last one by 4.3.1.
KEY = bytes.fromhex("0000 0004 74782d61")
EMPTY = bytes.fromhex("0000 0000000000000000 0000 0000ea60 00 ffffffff 000001a1f5b844b0 ffffffffffffffff")
ONGOING = bytes.fromhex(
    "0000 0000000000000000 0000 0000ea60 01 00000001 00027431 00000001 00000000 000001a1f5b84998 000001a1f5b84998"
)
ONGOING_OF_VERSION_2 = bytes.fromhex(
    "0001 0000000000000003 0001 0000ea60 01 02 037431 02 00000002 00 000001a1f5b95612 000001a1f5b95612"
    "02 00 08 0000000000000003 02 02 0002"
)


@pytest.mark.parametrize(
    ("transaction", "level", "data"),
    [
        (Transaction(State.EMPTY, 0, 0, 60_000, 0x1A1F5B844B0, previous_producer_id=0), 0, EMPTY),
        (
            Transaction(
                State.ONGOING, 0, 0, 60_000, 0x1A1F5B84998, frozenset({TopicPartition("t1", 0)}), 0x1A1F5B84998,
                previous_producer_id=0,
            ),
            0,
            ONGOING,
        ),
        (
            Transaction(
                State.ONGOING, 3, 1, 60_000, 0x1A1F5B95612, frozenset({TopicPartition("t1", 2)}), 0x1A1F5B95612,
                previous_producer_id=3, client_version=2,
            ),
            2,
            ONGOING_OF_VERSION_2,
        ),
    ],
)  # fmt: skip
def test_the_bytes_are_those_of_kafka(transaction: Transaction, level: int, data: bytes) -> None:
    assert transaction_record("tx-a", transaction, level) == (KEY, data)
    read = read_transaction_value(data)
    assert read == (transaction if level else transaction._replace(previous_producer_id=-1))


def test_an_ongoing_transaction_of_a_decision_has_the_bytes_of_kafka() -> None:
    first = Transaction(State.EMPTY, 3, 1, 60_000, 0)
    added = first.with_partitions([TopicPartition("t1", 2)], 2, 0x1A1F5B95612)
    assert transaction_record("tx-a", added, 2)[1] == ONGOING_OF_VERSION_2


@pytest.mark.parametrize("state", [each for each in State if each not in (State.DEAD, State.PREPARE_EPOCH_FENCE)])
@pytest.mark.parametrize("level", [0, 1, 2])
def test_every_state_is_read_as_it_was_written(state: State, level: int) -> None:
    partitions = frozenset() if state is State.EMPTY else PARTITIONS
    start_ms = -1 if state is State.EMPTY else FULL.start_ms
    transaction = FULL._replace(state=state, partitions=partitions, next_producer_id=-1, start_ms=start_ms)
    key, value = transaction_record("tx", transaction, level)
    assert value is not None
    assert (read_transaction_key(key), value[1]) == ("tx", min(level, 1))
    expected = transaction if level else transaction._replace(previous_producer_id=-1, client_version=0)
    assert read_transaction_value(value) == expected


@pytest.mark.parametrize("level", [0, 1, 2])
def test_the_next_producer_id_is_written_at_every_level(level: int) -> None:
    value = transaction_record("tx", FULL, level)[1]
    assert value is not None
    assert (value[1], read_transaction_value(value)) == (1, FULL)


def test_a_complete_state_has_no_partitions_but_an_array() -> None:
    value = transaction_record("tx", FULL.completed(99), 0)[1]
    assert value is not None
    assert value[2 + 8 + 2 + 4 :] == bytes.fromhex("04 00000000 0000000000000063 0000000000000009")


@pytest.mark.parametrize("data", [b"", b"\0", b"\0\1\0\1x", b"\xff\xff\0\1x", b"\0\0\0\5x"])
def test_a_key_of_another_type_or_cut_off_is_not_read(data: bytes) -> None:
    with pytest.raises(DecodeError):
        read_transaction_key(data)


@pytest.mark.parametrize(
    "data",
    [
        b"",
        b"\0",
        b"\0\2" + EMPTY[2:],
        b"\xff\xff" + EMPTY[2:],
        EMPTY[:-1],
        # States that are never in the log, or that do not exist.
        *(EMPTY[:16] + bytes([state]) + EMPTY[17:] for state in (6, 7, 8, 255)),
        # A transaction without its partitions would end without its markers.
        EMPTY[:16] + b"\2" + EMPTY[17:],
    ],
)
def test_a_value_that_is_not_understood_is_not_read(data: bytes) -> None:
    with pytest.raises(DecodeError):
        read_transaction_value(data)


def test_keys_of_any_characters_are_read() -> None:
    for name in ("", "tx-a", "\N{GRINNING FACE}\n"):
        assert read_transaction_key(transaction_key(name)) == name
