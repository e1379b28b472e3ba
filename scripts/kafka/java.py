"""What shows of Java in the lines of Kafka's tools: the order of its hash maps, its formats and its calendars.

PURE. Counterparts: java.util.HashMap, String.hashCode, String.format.
"""

import base64
import binascii
from collections.abc import Iterable

from ottla.scripts.kafka.face import JavaError, illegal_argument

_MASK = 0xFFFFFFFF
_LEAST_TABLE = 16
_LOAD = 0.75
_UUID_BYTES = 16
_UUID_LETTERS = 24


def string_hash(text: str) -> int:
    """Return Java's hash code of a string, as an unsigned number of 32 bits."""
    found = 0
    units = text.encode("utf-16-be")
    for at in range(0, len(units), 2):
        found = (31 * found + int.from_bytes(units[at : at + 2], "big")) & _MASK
    return found


def partition_hash(topic: str, partition: int) -> int:
    """Return the hash code of a TopicPartition."""
    return (31 * ((31 + partition) & _MASK) + string_hash(topic)) & _MASK


def hash_order(hashes: Iterable[int], capacity: int | None = None) -> list[int]:
    """Return positions in the order in which a HashMap iterates over keys with these hash codes.

    `capacity` is that of its constructor. Keys come in the order in which they were put.
    """
    found = list(hashes)
    size = _LEAST_TABLE if capacity is None else _table_size(capacity)
    while len(found) > _LOAD * size:
        size *= 2
    buckets = [((each ^ (each >> 16)) & (size - 1), position) for position, each in enumerate(found)]
    return [position for _, position in sorted(buckets)]


def _table_size(capacity: int) -> int:
    size = 1
    while size < capacity:
        size *= 2
    return size


def by_string_hash(keys: Iterable[str], capacity: int | None = None) -> list[str]:
    """Return strings in the order of a HashMap with these keys."""
    found = list(dict.fromkeys(keys))
    return [found[position] for position in hash_order(map(string_hash, found), capacity)]


def java_uuid(text: str) -> bytes:
    """Return the bytes of an id. JavaError, as `Uuid.fromString` throws it, for what is none."""
    if len(text) > _UUID_LETTERS:
        raise illegal_argument(
            f"Input string with prefix `{text[:_UUID_LETTERS]}` is too long to be decoded as a base64 UUID"
        )
    try:
        found = base64.b64decode(text + "=" * (-len(text) % 4), altchars=b"-_", validate=True)
    except binascii.Error as error:
        raise JavaError("java.lang.IllegalArgumentException", str(error)) from None
    if len(found) != _UUID_BYTES:
        raise illegal_argument(
            f"Input string `{text}` decoded as {len(found)} bytes, which is not equal to the expected 16 bytes of a "
            "base64-encoded UUID"
        )
    return found
