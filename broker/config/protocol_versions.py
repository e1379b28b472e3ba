"""Which versions of requests brokers speak among themselves: `inter.broker.protocol.version` fixes them.

PURE. Owns the table for controller requests, fetches of replicas and markers. Of what is asked by them otherwise each
broker says what it understands. Must not know who asks. Counterpart in Kafka: MetadataVersion.

A cluster is upgraded broker by broker while this version stays the old one: no broker is asked what it does not know.
"""

from collections.abc import Mapping
from typing import Final

from ottla.wire.api_keys import ApiKey

# Those of Kafka from 2.8 on, the oldest by which brokers still speak of topics by their ids.
_KNOWN: Final = (
    *("2.8-IV0", "2.8-IV1"),
    *("3.0-IV0", "3.0-IV1", "3.1-IV0", "3.2-IV0"),
    *("3.3-IV0", "3.3-IV1", "3.3-IV2", "3.3-IV3", "3.4-IV0"),
    *("3.5-IV0", "3.5-IV1", "3.5-IV2", "3.6-IV0", "3.6-IV1", "3.6-IV2"),
    *("3.7-IV0", "3.7-IV1", "3.7-IV2", "3.7-IV3", "3.7-IV4", "3.8-IV0", "3.9-IV0"),
)
OLDEST: Final = _KNOWN[0]
NEWEST: Final = _KNOWN[-1]

# From which protocol version on which version of a request is spoken.
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
    """The one of the known versions that a text names: "3.5", "3.5.1" and "3.5-IV2" are the same."""
    # As Kafka: what stands behind a second dot says nothing.
    name = ".".join(text.split(".")[:2])
    if name in _KNOWN:
        return name
    return next((known for known in reversed(_KNOWN) if known.startswith(f"{name}-")), None)


def version_fault(text: str) -> str | None:
    """What is wrong with a protocol version; None if nothing is."""
    if _full(text) is None:
        return f"Version {text} is not a valid version, which are {OLDEST} to {NEWEST} here"
    return None


def protocol_versions(text: str) -> dict[ApiKey, int]:
    """The version of each request that is spoken under a valid protocol version."""
    upper = _KNOWN.index(_full(text) or NEWEST)
    return {
        key: max(version for since, version in versions.items() if _KNOWN.index(since) <= upper)
        for key, versions in _SPOKEN.items()
    }
