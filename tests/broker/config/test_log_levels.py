"""Loggers and their levels, by Kafka's names."""

import logging
from collections.abc import Iterator

import pytest

from ottla.broker.config import log_levels as loggers
from ottla.wire.errors import KafkaError


@pytest.fixture
def parent() -> Iterator[logging.Logger]:
    logger = logging.getLogger("kafka.loggers.test")
    logging.getLogger("kafka.loggers.test.child")
    yield logger
    logger.setLevel(logging.NOTSET)


@pytest.mark.parametrize(
    ("number", "name"),
    [(1, "TRACE"), (5, "TRACE"), (10, "DEBUG"), (15, "INFO"), (30, "WARN"), (40, "ERROR"), (50, "FATAL"), (51, "OFF")],
)
def test_a_level_is_named_after_the_lowest_of_kafkas_it_lets_through(
    parent: logging.Logger, number: int, name: str
) -> None:
    parent.setLevel(number)
    assert loggers.levels()[parent.name] == name


def test_a_logger_without_a_level_inherits_one(parent: logging.Logger) -> None:
    loggers.set_level(parent.name, "ERROR")
    assert loggers.levels()[f"{parent.name}.child"] == "ERROR"
    loggers.set_level(parent.name, None)
    found = loggers.levels()
    assert found[f"{parent.name}.child"] == found["root"]


def test_a_prefix_of_a_loggers_name_is_no_logger(parent: logging.Logger) -> None:
    assert "kafka.loggers" not in loggers.levels()
    with pytest.raises(KafkaError, match=r"Logger kafka\.loggers does not exist!"):
        loggers.check_level("kafka.loggers", "INFO")
