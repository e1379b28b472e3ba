"""Mutations of bytes."""

from random import Random

_NASTY = (
    b"\xff\xff\xff\xff",
    b"\xff\xff\xff\xfe",
    b"\x7f\xff\xff\xff",
    b"\x80\x00\x00\x00",
    b"\x7f\xff",
    b"\xff\xfe",
    b"\x00",
    b"\x80",
    b"\xff\xff\xff\xff\x0f",
    b"\xff\xff\xff\xff\xff\xff",
    b"\x80\x80\x80\x80\x10",
)


def mutated(data: bytes, random: Random) -> bytes:
    """Return `data` cut off, with changed bytes, or with pieces inserted, removed or moved."""
    broken = bytearray(data)
    for _ in range(random.choice((1, 1, 1, 2, 5))):
        _mutate(broken, random)
    return bytes(broken)


def _mutate(broken: bytearray, random: Random) -> None:
    at = random.randrange(len(broken) + 1)
    choice = random.randrange(6)
    nasty = random.choice(_NASTY)
    if choice == 0:
        del broken[at:]
    elif choice == 1:
        broken[at : at + 1] = random.randbytes(1)
    elif choice == 2:
        broken[at : at + len(nasty)] = nasty
    elif choice == 3:
        broken[at:at] = nasty
    elif choice == 4:
        del broken[at : at + random.randrange(1, 9)]
    elif at < len(broken):
        broken[at] ^= 1 << random.randrange(8)
