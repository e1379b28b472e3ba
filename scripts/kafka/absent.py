"""Tools of Kafka's that are not here: each says so in one line and ends with 1, so that a script fails there.

What starts and ends servers is no such tool: a shim would hide the real one.
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
"""Why each tool is not here."""


def refuse(tool: str, face: Face) -> int:
    """Print why a tool is not here; return its exit code."""
    face.complain(f"{tool}: not imitated: {ABSENT[tool]}")
    return 1
