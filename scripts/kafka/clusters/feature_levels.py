"""The levels of Kafka's features, with the metadata version of each, and the other levels that it needs.

PURE data. Counterparts in Kafka: MetadataVersion, Feature, FeatureVersion, with which a test compares it.
"""

from collections.abc import Mapping
from typing import Final, NamedTuple

from ottla.scripts.kafka.face import Release, illegal_argument

METADATA_VERSION: Final = "metadata.version"
_ITERATIONS: Final = (
    {"3.1": 1, "3.2": 1, "3.3": 4, "3.4": 1, "3.5": 3, "3.6": 3, "3.7": 5, "3.8": 1, "3.9": 1}
    | {"4.0": 4, "4.1": 2, "4.2": 2, "4.3": 1, "4.4": 1}
)  # fmt: skip
_BEFORE_LEVELS: Final = (
    {"0.10.0": 2, "0.10.1": 3, "0.10.2": 1, "0.11.0": 3, "1.0": 1, "1.1": 1, "2.0": 2, "2.1": 3, "2.2": 2, "2.3": 2}
    | {"2.4": 2, "2.5": 1, "2.6": 1, "2.7": 3, "2.8": 2, "3.0": 1}
)  # fmt: skip


def _named(iterations: Mapping[str, int]) -> list[str]:
    return [f"{kafka}-IV{number}" for kafka, count in iterations.items() for number in range(count)]


_VERSIONS: Final = ["3.0-IV1", *_named(_ITERATIONS)]
"""Levels of metadata.version, the first of which is 1."""
_WITHOUT_LEVEL: Final = ["0.8.0", "0.8.1", "0.8.2", "0.9.0", *_named(_BEFORE_LEVELS)]
"""Names of metadata versions without a level, which Kafka 4 does not know any more."""
_NO_LEVEL: Final = -1
_LEVELS: Final[Mapping[Release, tuple[int, int, int]]] = {Release.V3_9: (1, 21, 23), Release.V4_3: (7, 30, 31)}
"""A release's lowest level, its latest level for production, and its highest level."""
_LOWEST_OF_3_9: Final = 4


class Level(NamedTuple):
    """A level of a feature: the metadata version with which it is the default, and the levels that it needs."""

    metadata_level: int
    needs: Mapping[str, int] = {}


FEATURES: Final[Mapping[str, tuple[Level, ...]]] = {
    "kraft.version": (Level(7), Level(21)),
    "transaction.version": (Level(7), Level(24), Level(24)),
    "group.version": (Level(7), Level(22)),
    "eligible.leader.replicas.version": (Level(7), Level(26, {METADATA_VERSION: 23})),
    "share.version": (Level(7), Level(28)),
    "streams.version": (Level(7), Level(29)),
}
"""The features of Kafka 4.3 but metadata.version, in the order of its tools."""


def metadata_version(level: int, release: Release = Release.V4_3) -> str:
    """Return the metadata version of a level. JavaError if there is none."""
    lowest, _, highest = _LEVELS[release]
    if lowest <= level <= highest:
        return _VERSIONS[level - 1]
    if release is Release.V3_9:
        if level == _NO_LEVEL:
            return _WITHOUT_LEVEL[0]
        raise illegal_argument(f"No MetadataVersion with feature level {level}")
    valid = f"Valid feature levels are from {lowest} to {highest}."
    raise illegal_argument(f"No MetadataVersion with feature level {level}. {valid}")


def metadata_level(text: str, release: Release = Release.V4_3) -> int:
    """Return the level of a metadata version, or the last one for production of a release such as 3.9 or 3.9.2."""
    lowest, for_production, highest = _LEVELS[release]
    exact = {each: at for at, each in enumerate(_VERSIONS, 1) if lowest <= at <= highest}
    if release is Release.V3_9:
        exact = dict.fromkeys(_WITHOUT_LEVEL, _NO_LEVEL) | exact
    last = {name.partition("-")[0]: level for name, level in exact.items() if level <= for_production}
    parts = text.split(".")
    key = ".".join(parts[: 3 if text.startswith("0.") and release is Release.V3_9 else 2])
    if key in last or key in exact:
        return last[key] if key in last else exact[key]
    if release is Release.V3_9:
        raise illegal_argument(f"Version {text} is not a valid version")
    raise illegal_argument(f"Unknown metadata.version '{text}'. Supported metadata.version are: {', '.join(exact)}")


def latest_version(release: Release = Release.V4_3) -> str:
    """Return the latest metadata version for production."""
    return _VERSIONS[_LEVELS[release][1] - 1]


def upgradable_versions_of_3_9() -> list[str]:
    """Return the metadata versions that Kafka 3.9 offers for --metadata."""
    return _VERSIONS[_LOWEST_OF_3_9 - 1 : _LEVELS[Release.V3_9][1]]


def default_level(feature: str, metadata: int) -> int:
    """Return the default level of a feature with this metadata version."""
    return max(at for at, level in enumerate(FEATURES[feature]) if level.metadata_level <= metadata)


def level_of(feature: str, number: int) -> Level:
    """Return a level of a feature. JavaError if there is none."""
    if 0 <= number < len(FEATURES[feature]):
        return FEATURES[feature][number]
    raise illegal_argument(f"No feature:{feature} with feature level {number}")
