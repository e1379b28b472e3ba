"""What is read of the topics of a server before it begins, from brokers that answer and from such as do not."""

import json
import time
from collections.abc import Sequence
from typing import Any, NamedTuple

import kafka
import pytest
from kafka.errors import KafkaTimeoutError

from ottla.pipeline.server import topics
from ottla.pipeline.server.state import config_record

CONFIGS = kafka.TopicPartition("configs", 0)
A_POLL_S = 0.001


class Found(NamedTuple):
    key: bytes
    value: bytes
    offset: int


class Consumer:
    """A consumer that finds what it is told to, and then nothing."""

    def __init__(self, polls: Sequence[Sequence[Found]], end: int, *, answers: bool) -> None:
        self.polls = list(polls)
        self.end = end
        self.answers = answers
        self.asked = 0

    def assign(self, partitions: Sequence[Any]) -> None:
        """It reads what it is asked to."""

    def seek_to_beginning(self, *partitions: Any) -> None:
        """There is nothing before."""

    def end_offsets(self, partitions: Sequence[Any]) -> dict[Any, int]:
        self.asked += 1
        if self.asked > 1 and not self.answers:
            raise KafkaTimeoutError("nobody answers")
        return {each: self.end if each == CONFIGS else 0 for each in partitions}

    def poll(self, timeout_ms: int) -> dict[Any, Sequence[Found]]:
        time.sleep(A_POLL_S)
        found = self.polls.pop(0) if self.polls else ()
        return {CONFIGS: found} if found else {}

    def close(self) -> None:
        """It holds nothing."""


class Producer:
    """A producer that nobody needs."""

    def close(self, timeout: float) -> None:
        """It holds nothing."""


def job(name: str, offset: int) -> Found:
    key, value = config_record(name, {"name": name})
    return Found(key.encode(), json.dumps(value).encode(), offset)


def started(monkeypatch: pytest.MonkeyPatch, consumer: Consumer) -> list[str]:
    """The jobs that are known when the topics have been read."""
    monkeypatch.setattr(kafka, "KafkaConsumer", lambda **_: consumer)
    monkeypatch.setattr(kafka, "KafkaProducer", lambda **_: Producer())
    read = topics.Topics({}, "configs", "statuses")
    read.start()
    names = read.state.names()
    read.stop()
    return names


def test_all_that_is_there_is_read_before_it_begins(monkeypatch: pytest.MonkeyPatch) -> None:
    consumer = Consumer([[job("a", 0)], [], [job("b", 1), job("c", 2)]], 3, answers=True)
    assert started(monkeypatch, consumer) == ["a", "b", "c"]
    assert consumer.asked == 1


def test_an_end_that_was_compacted_is_not_waited_for(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(topics, "QUIET_S", A_POLL_S)
    assert started(monkeypatch, Consumer([[job("a", 0)]], 3, answers=True)) == ["a"]


def test_a_broker_that_falls_silent_is_not_taken_for_the_end(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(topics, "QUIET_S", A_POLL_S)
    with pytest.raises(KafkaTimeoutError):
        started(monkeypatch, Consumer([[job("a", 0)]], 3, answers=False))
