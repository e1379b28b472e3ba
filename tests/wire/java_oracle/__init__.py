"""Kafka's own classes, asked about messages: one JVM for each release, spoken to line by line."""

import json
from pathlib import Path
from typing import Any

from compat_tests.support import jars
from compat_tests.support.java import JavaProgram

SOURCE = Path(__file__).parent / "Oracle.java"


class JavaOracle(JavaProgram):
    """The kafka-clients of one release, in a process of its own."""

    def __init__(self, release: str) -> None:
        super().__init__(SOURCE, f"org.apache.kafka:kafka-clients:{release}", jars.JACKSON)

    def read(self, name: str, version: int, data: bytes) -> tuple[bytes, Any]:
        """Let Kafka decode a message; return it encoded again, and as JSON."""
        encoded, _, text = self._ask(f"read {name} {version} {data.hex()}").partition(" ")
        return bytes.fromhex(encoded), json.loads(text)

    def build(self, name: str, version: int, message: Any) -> bytes:
        """Let Kafka build a message from JSON; return it encoded."""
        return bytes.fromhex(self._ask(f"build {name} {version} {json.dumps(message)}"))

    def error(self, code: int) -> str:
        """Return an error's name; Kafka calls a code that it does not know UNKNOWN_SERVER_ERROR."""
        return self._ask(f"error {code}")

    def _ask(self, line: str) -> str:
        answer = self.answer(line)
        assert answer.startswith("= "), f"{answer} to {line[:200]}"
        return answer[2:]
