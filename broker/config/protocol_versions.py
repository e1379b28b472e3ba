"""The versions of requests between brokers, which `inter.broker.protocol.version` fixes.

PURE. Owns the table for the controller's requests, fetches of replicas and markers; for other requests brokers use
ApiVersions. Must not know who sends requests. Counterpart in Kafka: MetadataVersion.

A cluster is upgraded broker by broker while this version stays the old one, so that all brokers know each request.
"""

from collections.abc import Mapping
from typing import Final

from ottla.wire.api_keys import ApiKey

# The versions of Kafka from 2.8 on, the oldest in which brokers know topic ids.
_KNOWN: Final = (
    *("2.8-IV0", "2.8-IV1"),
    *("3.0-IV0", "3.0-IV1", "3.1-IV0", "3.2-IV0"),
    *("3.3-IV0", "3.3-IV1", "3.3-IV2", "3.3-IV3", "3.4-IV0"),
    *("3.5-IV0", "3.5-IV1", "3.5-IV2", "3.6-IV0", "3.6-IV1", "3.6-IV2"),
    *("3.7-IV0", "3.7-IV1", "3.7-IV2", "3.7-IV3", "3.7-IV4", "3.8-IV0", "3.9-IV0"),
)
OLDEST: Final = _KNOWN[0]
NEWEST: Final = _KNOWN[-1]

# For each request its versions, by the protocol version that begins to use them.
_SPOKEN: Final[Mapping[ApiKey, Mapping[str, int]]] = {
    ApiKey.FETCH: {"2.8-IV0": 12, "3.1-IV0": 13, "3.5-IV0": 14, "3.5-IV1": 15, "3.7-IV4": 16, "3.9-IV0": 17},
    ApiKey.LIST_OFFSETS: {"2.8-IV0": 6, "3.0-IV1": 7, "3.5-IV0": 8, "3.9-IV0": 9},
    ApiKey.LEADER_AND_ISR: {"2.8-IV0": 4, "2.8-IV1": 5, "3.2-IV0": 6, "3.4-IV0": 7},
    ApiKey.STOP_REPLICA: {"2.8-IV0": 3, "3.4-IV0": 4},
    ApiKey.UPDATE_METADATA: {"2.8-IV0": 6, "2.8-IV1": 7, "3.4-IV0": 8},
    ApiKey.OFFSET_FOR_LEADER_EPOCH: {"2.8-IV0": 4},
    ApiKey.WRITE_TXN_MARKERS: {"2.8-IV0": 1},
}


def _full(text: str) -> str | None:
    """Return the known version that a text names: "3.5", "3.5.1" and "3.5-IV2" are the same."""
    # As in Kafka, the part after a second dot is ignored.
    name = ".".join(text.split(".")[:2])
    if name in _KNOWN:
        return name
    return next((known for known in reversed(_KNOWN) if known.startswith(f"{name}-")), None)


def version_fault(text: str) -> str | None:
    """Return the fault of a protocol version, None if there is none."""
    if _full(text) is None:
        return f"Version {text} is not a valid version; Ottla knows {OLDEST} to {NEWEST}"
    return None


def protocol_versions(text: str) -> dict[ApiKey, int]:
    """Return the version of each request under a valid protocol version."""
    upper = _KNOWN.index(_full(text) or NEWEST)
    return {
        key: max(version for since, version in versions.items() if _KNOWN.index(since) <= upper)
        for key, versions in _SPOKEN.items()
    }
