"""Mutated bytes raise DecodeError or decode to a value, and take little memory."""

import tracemalloc
from collections.abc import Callable, Iterator
from functools import partial
from random import Random

import pytest

from ottla.wire.codec import decode_request, encode_request
from ottla.wire.compiled.compiler import decoder
from ottla.wire.errors import DecodeError
from ottla.wire.schema import Message, Request
from tests.wire.mutations import mutated
from tests.wire.random_messages import all_versions, label, random_message
from tests.wire.sample_messages import SAMPLES

ALL = list(all_versions())
REQUESTS = [(message, version) for message, version in ALL if issubclass(message, Request)]
MIB = 2**20


@pytest.fixture(scope="module", autouse=True)
def _traced() -> Iterator[None]:
    tracemalloc.start()
    yield
    tracemalloc.stop()


def survives(decode: Callable[[], object], size: int) -> bool:
    """Return whether `decode` returned a value. It may use 4 x the frame + 1 MiB, and raise only DecodeError."""
    tracemalloc.reset_peak()
    before, _ = tracemalloc.get_traced_memory()
    try:
        decode()
        is_value = True
    except DecodeError:
        is_value = False
    _, peak = tracemalloc.get_traced_memory()
    assert peak - before <= 4 * size + MIB
    return is_value


@pytest.mark.parametrize(("message", "version"), ALL, ids=label)
@pytest.mark.trials(few=80, soak=400)
def test_a_message_cut_off_anywhere_is_refused(message: type[Message], version: int, trials: int, seed: int) -> None:
    random = Random(f"{seed} {message.__name__} {version}")
    encoded = random_message(message, version, random).encode(version)
    decode = decoder(message, version)
    for size in random.sample(range(len(encoded)), min(len(encoded), trials)):
        cut = memoryview(encoded)[:size]
        assert not survives(partial(decode, cut, 0), size)


@pytest.mark.parametrize(("message", "version"), ALL, ids=label)
@pytest.mark.trials(few=10, soak=50)
def test_a_mutated_message_is_refused_or_read(message: type[Message], version: int, trials: int, seed: int) -> None:
    random = Random(f"{seed} {message.__name__} {version}")
    decode = decoder(message, version)
    encoded = b""
    for trial in range(trials):
        if trial % 10 == 0:
            encoded = random_message(message, version, random).encode(version)
        broken = memoryview(mutated(encoded, random))
        survives(partial(decode, broken, 0), len(broken))


@pytest.mark.parametrize(("message", "version"), ALL, ids=label)
@pytest.mark.trials(few=10, soak=50)
def test_random_bytes_are_refused_or_read(message: type[Message], version: int, trials: int, seed: int) -> None:
    random = Random(f"{seed} {message.__name__} {version}")
    decode = decoder(message, version)
    for _ in range(trials):
        noise = memoryview(random.randbytes(random.randrange(200)))
        survives(partial(decode, noise, 0), len(noise))


@pytest.mark.parametrize(("message", "version"), REQUESTS, ids=label)
@pytest.mark.trials(few=10, soak=50)
def test_a_mutated_request_frame_is_refused_or_read(
    message: type[Request], version: int, trials: int, seed: int
) -> None:
    random = Random(f"{seed} {message.__name__} {version}")
    request = random_message(message, version, random)
    frame = encode_request(version, random.getrandbits(31), random.choice((None, "client", "ü" * 90)), request)[4:]
    for _ in range(trials):
        broken = memoryview(mutated(frame, random))
        survives(partial(decode_request, broken), len(broken))


@pytest.mark.parametrize("first", [b"\0", b"\x01", b"\x02", b"\x7f", b"\xff\xff\xff\x7f", b"\xff"])
def test_an_announced_size_costs_no_memory(first: bytes) -> None:
    """A frame of one repeated byte announces the largest sizes somewhere."""
    for message, version in ALL:
        if message not in SAMPLES:
            frame = memoryview(first * (8192 // len(first)))
            survives(partial(decoder(message, version), frame, 0), len(frame))
