"""Connect's own converters and dead letters, in a JVM of their own."""

import base64
import json
from pathlib import Path
from typing import Any

from compat_tests.support.java import JavaProgram

SOURCE = Path(__file__).parent / "ConnectConverters.java"
RUNTIME = "org.apache.kafka:connect-runtime:3.9.2"


class ConnectRefused(Exception):  # noqa: N818
    """Connect threw a DataException."""


class ConnectConverters(JavaProgram):
    """One program for all questions."""

    def __init__(self) -> None:
        super().__init__(SOURCE, RUNTIME)

    def read(self, converter: str, data: bytes | None, **config: str) -> tuple[Any, bytes | None]:
        """Return what a converter reads, and what it then writes; dots of keys are underscores."""
        pairs = ",".join(f"{key.replace('_', '.')}={value}" for key, value in config.items())
        shown, written = self._ask("read", converter, pairs, _text(data))
        return json.loads(shown), _bytes(written)

    def headers(self, *words: object) -> list[tuple[str, bytes | None]]:
        """Return the headers of a dead letter."""
        found = self._ask("letter", *words)
        return [(key, _bytes(value)) for key, value in zip(found[::2], found[1::2], strict=True)]

    def _ask(self, *words: object) -> list[str]:
        kind, *found = self.answer("\t".join(map(str, words))).split("\t")
        if kind == "!":
            raise ConnectRefused(": ".join(found))
        return found


def _text(data: bytes | None) -> str:
    return "-" if data is None else base64.b64encode(data).decode()


def _bytes(text: str) -> bytes | None:
    return None if text == "-" else base64.b64decode(text)
