"""The requests that the clients of a Kafka release know: their names and versions.

PURE data. Counterpart in Kafka: org.apache.kafka.common.protocol.ApiKeys, with which a test compares it.
"""

from collections.abc import Mapping
from typing import Final

from ottla.client.connection import VersionRange
from ottla.scripts.kafka.face import Release
from ottla.wire.api_keys import ApiKey

_VERSIONS_3_9: Final = (
    (0, 11), (0, 17), (0, 9), (0, 12), (0, 7), (0, 4), (0, 8), (0, 3), (0, 9), (0, 9), (0, 6), (0, 9), (0, 4), (0, 5),
    (0, 5), (0, 5), (0, 5), (0, 1), (0, 4), (0, 7), (0, 6), (0, 2), (0, 5), (0, 4), (0, 5), (0, 4), (0, 4), (0, 1),
    (0, 4), (0, 3), (0, 3), (0, 3), (0, 4), (0, 2), (0, 2), (0, 4), (0, 2), (0, 3), (0, 3), (0, 2), (0, 2), (0, 3),
    (0, 2), (0, 2), (0, 1), (0, 0), (0, 0), (0, 0), (0, 1), (0, 1), (0, 0), (0, 0), (0, 1), (0, 1), (0, 1), (0, 2),
    (0, 3), (0, 1), (0, 0), (0, 1), (0, 1), (0, 0), (0, 4), (0, 1), (0, 0), (0, 0), (0, 1), (0, 0), (0, 0), (0, 0),
    (0, 0), (0, 0), (0, 0), (0, 0), (0, 0), (0, 0), (0, 0), (0, 0), (0, 0), (0, 0), (0, 0), (0, 0), (0, 0), (0, 0),
    (0, 0), (0, 0), (0, 0), (0, 0),
)  # fmt: skip
"""The oldest and the latest version of each request of Kafka 3.9, in the order of their numbers."""
_NOT_OF_CLIENTS_3_9: Final = frozenset({52, 53, 54, 59, 62, 63, 70, 73, 82})
_VERSIONS_4_3: Final = (
    (3, 13), (4, 18), (1, 11), (0, 13), (0, -1), (0, -1), (0, -1), (0, -1), (2, 10), (1, 10), (0, 6), (0, 9), (0, 4),
    (0, 5), (0, 5), (0, 6), (0, 5), (0, 1), (0, 4), (2, 7), (1, 6), (0, 2), (0, 6), (2, 4), (0, 5), (0, 4), (0, 5),
    (1, 2), (0, 5), (1, 3), (1, 3), (1, 3), (1, 4), (0, 2), (1, 2), (1, 5), (0, 2), (0, 3), (1, 3), (1, 2), (1, 2),
    (1, 3), (0, 2), (0, 2), (0, 1), (0, 1), (0, 0), (0, 0), (0, 1), (0, 1), (0, 0), (0, 0), (0, 2), (0, 1), (0, 1),
    (0, 2), (2, 3), (0, 2), (0, 0), (0, 1), (0, 2), (0, 0), (0, 4), (0, 2), (0, 0), (0, 0), (0, 2), (0, 0), (0, 1),
    (0, 1), (0, 0), (0, 0), (0, 0), (0, 0), (0, 1), (0, 0), (1, 1), (1, 1), (1, 2), (1, 2), (0, 1), (0, 0), (0, 0),
    (0, 0), (0, 0), (0, 1), (0, 0), (0, 1), (0, 0), (0, 0), (0, 1), (0, 0), (0, 0),
)  # fmt: skip
"""The oldest and the latest version of each request of Kafka 4.3, in the order of their numbers."""
_NOT_OF_CLIENTS_4_3: Final = frozenset({4, 5, 6, 7, 52, 53, 54, 56, 58, 59, 62, 63, 67, 70, 73, 82})
_LIST_CONFIG_RESOURCES: Final = 74
_TABLES: Final = {
    Release.V3_9: (_VERSIONS_3_9, _NOT_OF_CLIENTS_3_9),
    Release.V4_3: (_VERSIONS_4_3, _NOT_OF_CLIENTS_4_3),
}


def known_versions(release: Release) -> Mapping[int, VersionRange]:
    """Return a release's versions of each request; the latest is -1 for a request that was removed."""
    return {number: VersionRange(*versions) for number, versions in enumerate(_TABLES[release][0])}


def asked_by_clients(release: Release) -> list[int]:
    """Return the requests that clients may send to brokers."""
    versions, not_of_clients = _TABLES[release]
    return [number for number in range(len(versions)) if number not in not_of_clients]


def api_name(number: int, release: Release = Release.V4_3) -> str:
    """Return Kafka's name of a request."""
    if number == _LIST_CONFIG_RESOURCES and release is Release.V3_9:
        return "ListClientMetricsResources"
    return ApiKey(number).name.title().replace("_", "")
