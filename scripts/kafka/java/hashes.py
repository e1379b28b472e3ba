"""Java's hash codes, the order of its hash maps, and its texts of numbers and ids.

PURE. Counterparts: java.util.HashMap, String.hashCode, String.format.
"""

import base64
import binascii
import math
from collections.abc import Iterable
from decimal import Decimal

from ottla.scripts.kafka.face import illegal_argument
from ottla.wire.types import TopicPartition

_MASK = 0xFFFFFFFF
_LEAST_TABLE = 16
_LOAD = 0.75
_HASH_BITS = 32
_SLOTS = 31
_MOST_IN_ORDER = 4
_LEAST_PLAIN = 1e-3
_LEAST_SCIENTIFIC = 1e7
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

    `capacity` is the argument of its constructor. `hashes` has the order in which the keys were put.
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


def by_partition_hash(partitions: Iterable[TopicPartition]) -> list[TopicPartition]:
    """Return partitions in the order of a HashMap with these keys."""
    found = list(dict.fromkeys(partitions))
    return [found[position] for position in hash_order(partition_hash(*each) for each in found)]


def by_number_hash(numbers: Iterable[int], capacity: int | None = None) -> list[int]:
    """Return numbers of 32 bits in the order of a HashMap with these keys."""
    found = list(dict.fromkeys(numbers))
    return [found[position] for position in hash_order((each & _MASK for each in found), capacity)]


def by_string_hash(keys: Iterable[str], capacity: int | None = None) -> list[str]:
    """Return strings in the order of a HashMap with these keys."""
    found = list(dict.fromkeys(keys))
    return [found[position] for position in hash_order(map(string_hash, found), capacity)]


def by_scala_set(keys: Iterable[str]) -> list[str]:
    """Return strings in the order of an immutable Set of Scala, or of a Map with these keys."""
    found = list(dict.fromkeys(keys))
    if len(found) <= _MOST_IN_ORDER:
        return found
    return _trie_order([(_improved(string_hash(each)), each) for each in found], 0)


def _improved(code: int) -> int:
    code = (code + ~(code << 9)) & _MASK
    code ^= code >> 14
    code = (code + (code << 4)) & _MASK
    return code ^ (code >> 10)


def _trie_order(hashed: list[tuple[int, str]], shift: int) -> list[str]:
    """Return strings in the order of a trie: in each node its own first, then those of the nodes below."""
    if shift >= _HASH_BITS:
        return [each for _, each in hashed]
    slots: dict[int, list[tuple[int, str]]] = {}
    for code, each in hashed:
        slots.setdefault((code >> shift) & _SLOTS, []).append((code, each))
    ordered = [slots[slot] for slot in sorted(slots)]
    own = [slot[0][1] for slot in ordered if len(slot) == 1]
    return own + [each for slot in ordered if len(slot) > 1 for each in _trie_order(slot, shift + 5)]


def double_text(value: float) -> str:
    """Return the text of a number, like `Double.toString`."""
    if math.isnan(value):
        return "NaN"
    if math.isinf(value):
        return "Infinity" if value > 0 else "-Infinity"
    if value == 0 or _LEAST_PLAIN <= abs(value) < _LEAST_SCIENTIFIC:
        return repr(value)
    sign, digits, _ = Decimal(repr(value)).normalize().as_tuple()
    first, *rest = map(str, digits)
    exponent = Decimal(repr(value)).adjusted()
    return f"{'-' if sign else ''}{first}.{''.join(rest) or '0'}E{exponent}"


def java_uuid(text: str) -> bytes:
    """Return the bytes of an id. JavaError, as `Uuid.fromString` throws it, for an invalid one."""
    if len(text) > _UUID_LETTERS:
        raise illegal_argument(
            f"Input string with prefix `{text[:_UUID_LETTERS]}` is too long to be decoded as a base64 UUID"
        )
    try:
        found = base64.b64decode(text + "=" * (-len(text) % 4), altchars=b"-_", validate=True)
    except binascii.Error:
        wrong = next((each for each in text if not (each.isascii() and (each.isalnum() or each in "-_="))), None)
        short = "Last unit does not have enough valid bits"
        raise illegal_argument(short if wrong is None else f"Illegal base64 character {ord(wrong):x}") from None
    if len(found) != _UUID_BYTES:
        raise illegal_argument(
            f"Input string `{text}` decoded as {len(found)} bytes, which is not equal to the expected 16 bytes of a "
            "base64-encoded UUID"
        )
    return found
