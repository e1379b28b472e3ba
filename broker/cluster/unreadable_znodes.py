"""Unreadable znodes, which are passed over and logged.

Owns the log line. Must not know what any znode means. No counterpart in Kafka, whose controller does not start while
one znode is unreadable; here everything else is served.
"""

import logging
from collections.abc import Callable
from typing import TypeVar

from ottla.zk.strict_json import ZnodeError

logger = logging.getLogger("kafka.zk.KafkaZkClient")

T = TypeVar("T")


def read_or_pass_over(path: str, decode: Callable[[bytes], T], data: bytes) -> T | None:
    """Return the decoded data of a znode; log and return None if it cannot be decoded."""
    try:
        return decode(data)
    except ZnodeError as error:
        logger.error("%s is passed over: %s", path, error)
        return None
