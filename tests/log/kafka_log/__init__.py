"""Kafka's own log of a partition, in a JVM of its own, spoken to line by line."""

import subprocess
from pathlib import Path
from types import TracebackType
from typing import Self

from compat_tests import jars

SOURCE = Path(__file__).parent / "KafkaLog.java"


class KafkaRefused(Exception):  # noqa: N818
    """Kafka threw."""


class KafkaLog:
    """One log at a time; the program stays for many."""

    def __init__(self) -> None:
        command = [
            jars.require("java"),
            "-Xmx512M",
            "-XX:+UseSerialGC",
            "-cp",
            jars.classpath(jars.BROKER),
            str(SOURCE),
        ]
        self._process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)

    def ask(self, *words: object) -> str:
        """Send one line; return the answer. KafkaRefused if Kafka threw."""
        stdin, stdout = self._process.stdin, self._process.stdout
        assert stdin is not None
        assert stdout is not None
        stdin.write(" ".join(map(str, words)) + "\n")
        stdin.flush()
        answer = stdout.readline()
        if not answer.startswith("= "):
            raise KafkaRefused(answer.strip() or "the JVM has ended")
        return answer[2:].strip()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self._process.kill()
        self._process.communicate()
