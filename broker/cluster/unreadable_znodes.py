"""Znodes that cannot be read: they are passed over, and the operator is told which.

Owns that one line. Must not know what any znode means. Kafka fails there, as often as it looks: at a znode of another
shape than its own no controller begins; here what is sound goes on being served.
"""

import logging
from collections.abc import Callable
from typing import TypeVar

from ottla.zk.strict_json import ZnodeError

logger = logging.getLogger("kafka.zk.KafkaZkClient")

T = TypeVar("T")


def read_or_pass_over(path: str, decode: Callable[[bytes], T], data: bytes) -> T | None:
    """Return what a znode says, None if that cannot be understood."""
    try:
        return decode(data)
    except ZnodeError as error:
        logger.error("%s is passed over: %s", path, error)
        return None
