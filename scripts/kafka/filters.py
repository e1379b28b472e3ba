"""Patterns of topics.

PURE. Counterpart: org.apache.kafka.server.util.TopicFilter.IncludeList.
"""

import re
from typing import Final

from ottla.scripts.kafka.face import JavaError

INTERNAL_TOPICS: Final = frozenset({"__consumer_offsets", "__transaction_state", "__share_group_state"})


class IncludeList:
    """A regular expression for whole names; commas separate alternatives, and quotes around it are dropped."""

    def __init__(self, text: str) -> None:
        pattern = text.strip().replace(",", "|").replace(" ", "")
        pattern = re.sub(r"^[\"']+", "", pattern)
        pattern = re.sub(r"[\"']+$", "", pattern)
        try:
            self._pattern = re.compile(pattern)
        except re.error:
            raise JavaError("java.lang.RuntimeException", f"{pattern} is an invalid regex.") from None

    def allows(self, topic: str, *, exclude_internal: bool) -> bool:
        """Whether a topic matches."""
        return bool(self._pattern.fullmatch(topic)) and not (exclude_internal and topic in INTERNAL_TOPICS)
