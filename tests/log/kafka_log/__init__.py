"""Kafka's own log of a partition, in a JVM that reads commands line by line."""

from pathlib import Path

from compat_tests.support import jars
from compat_tests.support.java import JavaProgram

SOURCE = Path(__file__).parent / "KafkaLog.java"


class KafkaRefused(Exception):  # noqa: N818
    """Kafka raised an exception."""


class KafkaLog(JavaProgram):
    """A JVM that holds one log at a time."""

    def __init__(self) -> None:
        super().__init__(SOURCE, jars.BROKER)

    def ask(self, *words: object) -> str:
        """Send one line; return the answer. KafkaRefused if Kafka raised an exception."""
        answer = self.answer(" ".join(map(str, words)))
        if not answer.startswith("= "):
            raise KafkaRefused(answer.strip())
        return answer[2:].strip()
