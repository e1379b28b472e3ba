"""Requests as bytes, and answers as values: by Kafka's own classes, in one JVM."""

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
    """The kafka-clients of 3.9.2, in a process of its own."""

    def __init__(self) -> None:
        super().__init__(SOURCE, CLIENTS, jars.JACKSON)

    def request(self, key: int, version: int, client: str, fields: Answer) -> bytes:
        """Return a request with its header; its fields have the names that Kafka's JSON has."""
        return bytes.fromhex(self._ask(f"request {key} {version} {client} {json.dumps(fields)}"))

    def response(self, key: int, version: int, data: bytes) -> Answer:
        """Return the fields of an answer, by names as Python has them."""
        answer: Answer = snake(json.loads(self._ask(f"response {key} {version} {data.hex()}")))
        return answer

    def _ask(self, line: str) -> str:
        answer = self.answer(line)
        assert answer.startswith("= "), f"{answer} to {line[:2000]}"
        return answer[2:]


def snake(value: Any) -> Any:
    """Return a value with the names of fields as Python has them."""
    if isinstance(value, dict):
        return {_HUMP.sub("_", name).lower(): snake(each) for name, each in value.items()}
    return [snake(each) for each in value] if isinstance(value, list) else value
