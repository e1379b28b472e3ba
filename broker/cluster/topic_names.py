"""The names of topics: which are legal, and which are Kafka's own.

PURE. Owns the rules of names. Must not know which topics exist. Counterpart in Kafka:
org.apache.kafka.common.internals.Topic.
"""

import re
from typing import Final

from ottla.wire.errors import ErrorCode, KafkaError

GROUP_METADATA_TOPIC: Final = "__consumer_offsets"
TRANSACTION_STATE_TOPIC: Final = "__transaction_state"
CLUSTER_METADATA_TOPIC: Final = "__cluster_metadata"
_INTERNAL_TOPICS: Final = frozenset({GROUP_METADATA_TOPIC, TRANSACTION_STATE_TOPIC, "__share_group_state"})

_MAX_NAME_LENGTH: Final = 249
_LEGAL: Final = re.compile(r"[a-zA-Z0-9._-]+")


def is_internal(topic: str) -> bool:
    """Whether a topic is one of Kafka's own."""
    return topic in _INTERNAL_TOPICS


def name_fault(name: str) -> str | None:
    """Return the fault of a topic's name, None if there is none."""
    if not name:
        return "the empty string is not allowed"
    if name in (".", ".."):
        return f"'{name}' is not allowed"
    if len(name) > _MAX_NAME_LENGTH:
        return f"the length of '{name}' is longer than the max allowed length {_MAX_NAME_LENGTH}"
    if not _LEGAL.fullmatch(name):
        return f"'{name}' contains one or more characters other than ASCII alphanumerics, '.', '_' and '-'"
    return None


def check_name(name: str) -> None:
    """Raise KafkaError for a name that no topic may have."""
    fault = name_fault(name)
    if fault is not None:
        raise KafkaError(ErrorCode.INVALID_TOPIC_EXCEPTION, f"Topic name is invalid: {fault}")
