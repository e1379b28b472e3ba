"""Formats of keys and values: which there are, and by which names a job asks for them.

Must import without pyspark. Counterparts in Kafka: Converter, Plugins.newConverter.
"""

from collections.abc import Callable
from typing import Final

from ottla.pipeline.formats import plain
from ottla.pipeline.formats.avro_format import AvroFormat
from ottla.pipeline.formats.format import Format
from ottla.pipeline.formats.json_format import JsonFormat
from ottla.pipeline.settings import Settings

__all__ = ["Format", "read_format"]

_SHORT: Final[dict[str, Callable[[Settings], Format]]] = {
    "json": lambda settings: JsonFormat(settings, is_connect=False),
    "avro": lambda settings: AvroFormat(settings, is_framed=False),
    "string": plain.StringFormat,
    "bytes": plain.BytesFormat,
}
_CLASSES: Final[dict[str, Callable[[Settings], Format]]] = {
    JsonFormat.converter: lambda settings: JsonFormat(settings, is_connect=True),
    AvroFormat.converter: lambda settings: AvroFormat(settings, is_framed=True),
    **{
        each.converter: each
        for each in (
            plain.StringFormat,
            plain.BytesFormat,
            plain.LongFormat,
            plain.IntegerFormat,
            plain.ShortFormat,
            plain.DoubleFormat,
            plain.FloatFormat,
            plain.BooleanFormat,
        )
    },
}


def read_format(settings: Settings) -> Format:
    """The format that `type` names: a short name, or a converter of Connect's, with its package or without."""
    names = {**_SHORT, **_CLASSES, **{name.rpartition(".")[2]: made for name, made in _CLASSES.items()}}
    kind = settings.text("type")
    if kind not in names:
        raise settings.wrong("type", f"is to be one of {', '.join([*_SHORT, *_CLASSES])}, not {kind!r}")
    found = names[kind](settings)
    settings.finish()
    return found
