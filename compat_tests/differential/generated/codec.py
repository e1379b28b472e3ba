"""Encoding of requests and decoding of answers by Kafka's classes, in one JVM."""

import json
import re
from pathlib import Path
from typing import Any, Final

from compat_tests.differential.both import Answer
from compat_tests.support import jars
from compat_tests.support.java import JavaProgram

SOURCE: Final = Path(__file__).parent / "Codec.java"
CLIENTS: Final = "org.apache.kafka:kafka-clients:3.9.2"
_HUMP: Final = re.compile("(?<=[a-z0-9])(?=[A-Z])")


class Codec(JavaProgram):
    """The process of kafka-clients 3.9.2."""

    def __init__(self) -> None:
        super().__init__(SOURCE, CLIENTS, jars.JACKSON)

    def request(self, key: int, version: int, client: str, fields: Answer) -> bytes:
        """Return a request with its header; `fields` has the names of Kafka's JSON."""
        return bytes.fromhex(self._ask(f"request {key} {version} {client} {json.dumps(fields)}"))

    def response(self, key: int, version: int, data: bytes) -> Answer:
        """Return the fields of an answer, with names in Python's style."""
        answer: Answer = snake(json.loads(self._ask(f"response {key} {version} {data.hex()}")))
        return answer

    def _ask(self, line: str) -> str:
        answer = self.answer(line)
        assert answer.startswith("= "), f"{answer} to {line[:2000]}"
        return answer[2:]


def snake(value: Any) -> Any:
    """Return a value with the names of fields in Python's style."""
    if isinstance(value, dict):
        return {_HUMP.sub("_", name).lower(): snake(each) for name, each in value.items()}
    return [snake(each) for each in value] if isinstance(value, list) else value
