"""Kafka's own classes, asked about messages: one JVM for each release, spoken to line by line."""

import json
import os
import subprocess
from pathlib import Path
from types import TracebackType
from typing import Any, Self

from compat_tests import jars

SOURCE = Path(__file__).parent / "Oracle.java"


class JavaOracle:
    """The kafka-clients of one release, in a process of its own."""

    def __init__(self, release: str) -> None:
        java = jars.require("java")
        path = os.pathsep.join(map(jars.classpath, (f"org.apache.kafka:kafka-clients:{release}", jars.JACKSON)))
        command = [java, "-Xmx256M", "-XX:+UseSerialGC", "-cp", path, str(SOURCE)]
        self._process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)

    def read(self, name: str, version: int, data: bytes) -> tuple[bytes, Any]:
        """Let Kafka decode a message; return it encoded again, and as JSON."""
        encoded, _, text = self._ask(f"read {name} {version} {data.hex()}").partition(" ")
        return bytes.fromhex(encoded), json.loads(text)

    def build(self, name: str, version: int, message: Any) -> bytes:
        """Let Kafka build a message from JSON; return it encoded."""
        return bytes.fromhex(self._ask(f"build {name} {version} {json.dumps(message)}"))

    def error(self, code: int) -> tuple[str, bool]:
        """Return an error's name, and whether it is retriable; Kafka calls a code that it does not know unknown."""
        name, retriable = self._ask(f"error {code}").split(" ")
        return name, retriable == "true"

    def _ask(self, line: str) -> str:
        stdin, stdout = self._process.stdin, self._process.stdout
        assert stdin is not None
        assert stdout is not None
        stdin.write(line + "\n")
        stdin.flush()
        answer = stdout.readline().rstrip("\n")
        assert answer, "the JVM has ended"
        assert answer.startswith("= "), f"{answer} to {line[:200]}"
        return answer[2:]

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self._process.kill()
        self._process.communicate()
