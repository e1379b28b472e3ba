"""The functions that encode and decode a message in one version: written and compiled at first use, then kept.

Knows how to find them; the writing is done by `encoder_source` and `decoder_source`. A message that fits its
declaration round-trips; bytes that do not fit end in DecodeError, values that do not fit in EncodeError.
Counterpart in Kafka: org.apache.kafka.message.MessageGenerator.
"""

from collections.abc import Callable
from typing import Any

from ottla.wire.decoder_source import DecoderSource
from ottla.wire.encoder_source import EncoderSource
from ottla.wire.schema import Message

Encoder = Callable[[Any, list[Any]], None]
Decoder = Callable[[memoryview, int], tuple[Any, int]]

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
    """`decode(buf, pos)`: the message at `pos` and the position behind it."""
    found = _decoders.get((message, version))
    if found is None:
        _check(message, version)
        source = DecoderSource(message, version)
        found = _decoders[message, version] = source.compile(f"<decode {message.__name__} v{version}>", "decode")
    return found


def _check(message: type[Message], version: int) -> None:
    if version not in message.versions:
        raise ValueError(f"{message.__name__} has versions {message.versions}, not {version}")
