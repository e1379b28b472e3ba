"""Kafka's own log of a partition, in a JVM of its own, spoken to line by line."""

from pathlib import Path

from compat_tests.support import jars
from compat_tests.support.java import JavaProgram

SOURCE = Path(__file__).parent / "KafkaLog.java"


class KafkaRefused(Exception):  # noqa: N818
    """Kafka threw."""


class KafkaLog(JavaProgram):
    """One log at a time; the program stays for many."""

    def __init__(self) -> None:
        super().__init__(SOURCE, jars.BROKER)

    def ask(self, *words: object) -> str:
        """Send one line; return the answer. KafkaRefused if Kafka threw."""
        answer = self.answer(" ".join(map(str, words)))
        if not answer.startswith("= "):
            raise KafkaRefused(answer.strip())
        return answer[2:].strip()
