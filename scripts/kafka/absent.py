"""Kafka's tools that are not imitated: each prints one line and ends with 1, so that a script fails there.

There are no shims for tools that start and stop servers, because a shim would hide the real tool.
"""

from collections.abc import Mapping
from typing import Final

from ottla.scripts.kafka.face import Face

_SHARE_GROUPS: Final = "there is no member of a share group here; kafka-share-groups.sh describes groups"
ABSENT: Final[Mapping[str, str]] = {
    "kafka-console-share-consumer": _SHARE_GROUPS,
    "kafka-share-consumer-perf-test": _SHARE_GROUPS,
    "kafka-verifiable-share-consumer": _SHARE_GROUPS,
    "kafka-streams-application-reset": "the state of Kafka Streams is Java's; kafka-streams-groups.sh resets offsets",
    "kafka-jmx": "Ottla has no JMX, and reading that of a JVM takes Java",
    "kafka-metadata-shell": "Ottla has no KRaft log; kafka-dump-log.sh reads Kafka's",
}
"""The reason for each tool."""


def refuse(tool: str, face: Face) -> int:
    """Print the reason for a missing tool; return the exit code."""
    face.complain(f"{tool}: not imitated: {ABSENT[tool]}")
    return 1
