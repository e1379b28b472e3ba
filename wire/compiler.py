"""The functions that encode and decode a message in one version: written and compiled at first use, then kept.

Knows how to find them; the writing is done by `encoder_source` and `decoder_source`. A message that fits its
declaration round-trips; bytes that do not fit end in DecodeError, values that do not fit in EncodeError.
Counterpart in Kafka: org.apache.kafka.message.MessageGenerator.
"""

from collections.abc import Callable
from functools import cache, partial
from typing import Any

from ottla.wire.decoder_source import DecoderSource
from ottla.wire.encoder_source import EncoderSource
from ottla.wire.large_arrays import Budget
from ottla.wire.schema import Message

Encoder = Callable[[Any, list[Any]], None]
Decoder = Callable[[memoryview, int], tuple[Any, int]]
LargeDecoder = Callable[[memoryview, int, Budget], tuple[Any, int]]

_encoders: dict[tuple[type[Message], int], Encoder] = {}
_decoders: dict[tuple[type[Message], int], Decoder] = {}


def encoder(message: type[Message], version: int) -> Encoder:
    """`encode(message, chunks)`: appends the wire form in pieces; regions are appended as they are."""
    found = _encoders.get((message, version))
    if found is None:
        _check(message, version)
        source = EncoderSource(message, version)
        found = _encoders[message, version] = source.compile(f"<encode {message.__name__} v{version}>", "encode")
    return found


def decoder(message: type[Message], version: int) -> Decoder:
    """`decode(buf, pos)`: the message at `pos` and the position behind it. ManyElements if it is a request of many."""
    found = _decoders.get((message, version))
    if found is None:
        _check(message, version)
        source = DecoderSource(message, version, partial(_decode_large, message, version))
        found = _decoders[message, version] = source.compile(f"<decode {message.__name__} v{version}>", "decode")
    return found


@cache
def large_decoder(message: type[Message], version: int) -> LargeDecoder:
    """`decode(buf, pos, budget)`: as `decoder`; what the budget does not let it keep stays in `buf`."""
    _check(message, version)
    decode: LargeDecoder = DecoderSource(message, version).compile(
        f"<decode large {message.__name__} v{version}>", "decode"
    )
    return decode


def _decode_large(message: type[Message], version: int, buf: memoryview, pos: int, budget: Budget) -> tuple[Any, int]:
    return large_decoder(message, version)(buf, pos, budget)


def _check(message: type[Message], version: int) -> None:
    if version not in message.versions:
        raise ValueError(f"{message.__name__} has versions {message.versions}, not {version}")
