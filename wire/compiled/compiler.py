"""The functions that encode and decode a message in one version: generated and compiled at first use, then cached.

Owns the caches; `encoder_source` and `decoder_source` write the functions. Bytes that do not fit the declaration raise
DecodeError, values that do not fit raise EncodeError.
Counterpart in Kafka: org.apache.kafka.message.MessageGenerator.
"""

from collections.abc import Callable
from functools import cache, partial
from typing import Any

from ottla.wire.compiled.decoder_source import DecoderSource
from ottla.wire.compiled.encoder_source import EncoderSource
from ottla.wire.large_arrays import Budget
from ottla.wire.schema import Message

Encoder = Callable[[Any, list[Any]], None]
Decoder = Callable[[memoryview, int], tuple[Any, int]]
LargeDecoder = Callable[[memoryview, int, Budget], tuple[Any, int]]

_encoders: dict[tuple[type[Message], int], Encoder] = {}
_decoders: dict[tuple[type[Message], int], Decoder] = {}


def encoder(message: type[Message], version: int) -> Encoder:
    """Return `encode(message, chunks)`, which appends the wire form in pieces, and regions as they are."""
    found = _encoders.get((message, version))
    if found is None:
        _check(message, version)
        source = EncoderSource(message, version)
        found = _encoders[message, version] = source.compile(f"<encode {message.__name__} v{version}>", "encode")
    return found


def decoder(message: type[Message], version: int) -> Decoder:
    """Return `decode(buf, pos)`, which returns a message and its end. ManyElements: a request exceeds `few()`."""
    found = _decoders.get((message, version))
    if found is None:
        _check(message, version)
        source = DecoderSource(message, version, partial(_decode_large, message, version))
        found = _decoders[message, version] = source.compile(f"<decode {message.__name__} v{version}>", "decode")
    return found


@cache
def large_decoder(message: type[Message], version: int) -> LargeDecoder:
    """Return `decode(buf, pos, budget)`: arrays beyond the budget are views of `buf`."""
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
