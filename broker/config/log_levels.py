"""The loggers of this process and their levels, by Kafka's names for both.

Owns the translation to Python's logging, and the level of a line that is one of many. Must not know its callers, nor
which loggers there are.
Counterparts in Kafka: Log4jController, RuntimeLoggerManager.
"""

import logging
from collections.abc import Iterable
from typing import Final

from ottla.wire.errors import ErrorCode, KafkaError

ROOT: Final = "root"
LEVELS: Final = {
    "TRACE": 5,
    "DEBUG": logging.DEBUG,
    "INFO": logging.INFO,
    "WARN": logging.WARNING,
    "ERROR": logging.ERROR,
    "FATAL": logging.CRITICAL,
}

# For more things than these one line logs the sum, and their own lines are at DEBUG.
_MOST_LINES: Final = 10

logger = logging.getLogger("kafka.server.logger.RuntimeLoggerManager")


def level_of_each(count: int) -> int:
    """Return the level of a line about each of `count` things. If it is below INFO, log their sum too."""
    return logging.INFO if count <= _MOST_LINES else logging.DEBUG


def names(some: Iterable[str]) -> str:
    """Return the names of topics for a log line, or their number if they are more than _MOST_LINES."""
    found = sorted(set(some))
    return ", ".join(found) if len(found) <= _MOST_LINES else f"{len(found)} topics"


def levels() -> dict[str, str]:
    """Return all loggers with their levels, which are their own or inherited."""
    found = {ROOT: _name(logging.root.level)}
    for name in sorted(logging.root.manager.loggerDict):
        existing = _existing(name)
        if existing is not None:
            found[name] = _name(existing.getEffectiveLevel())
    return found


def check_level(name: str, level: str | None) -> None:
    """Raise KafkaError if a logger cannot have a level; None stands for the inherited one."""
    if _existing(name) is None:
        raise KafkaError(ErrorCode.INVALID_CONFIG, f"Logger {name} does not exist!")
    if level is None:
        if name == ROOT:
            raise KafkaError(ErrorCode.INVALID_REQUEST, f"Removing the log level of the {ROOT} logger is not allowed")
    elif level not in LEVELS:
        raise KafkaError(
            ErrorCode.INVALID_CONFIG,
            f"Cannot set the log level of {name} to {level} as it is not a supported log level. "
            f"Valid log levels are {', '.join(sorted(LEVELS))}",
        )


def set_level(name: str, level: str | None) -> None:
    """Set the level of a logger, checked before, until the process ends; None for the inherited one."""
    existing = _existing(name)
    if existing is not None:
        existing.setLevel(logging.NOTSET if level is None else LEVELS[level])
        if level is None:
            logger.warning("Unset the log level of %s", name)
        else:
            logger.warning("Updated the log level of %s to %s", name, level)


def _existing(name: str) -> logging.Logger | None:
    if name == ROOT:
        return logging.root
    found = logging.root.manager.loggerDict.get(name)
    return found if isinstance(found, logging.Logger) else None


def _name(number: int) -> str:
    """Return the lowest of Kafka's levels that a logger with this level of Python's lets through."""
    return next((name for name, level in LEVELS.items() if level >= number), "OFF")
