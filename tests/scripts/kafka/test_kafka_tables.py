"""The tables of releases equal those of Kafka's classes."""

import subprocess
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from compat_tests.support import jars
from compat_tests.support.brokers import TOOLS
from ottla.client.connection import VersionRange
from ottla.scripts.kafka.clusters.api_tables import api_name, asked_by_clients, known_versions
from ottla.scripts.kafka.clusters.feature_levels import (
    FEATURES,
    default_level,
    latest_version,
    level_of,
    metadata_level,
    metadata_version,
)
from ottla.scripts.kafka.face import JavaError, Release
from ottla.scripts.kafka.tools.broker_api_versions import lines

JARS = {Release.V4_3: TOOLS, Release.V3_9: jars.ZOOKEEPER_TOOLS}
RELEASES = (
    *("0.8.0", "0.10", "0.10.0", "0.10.0-IV1", "0.10.0.1", "2.8", "2.8.1", "3.0", "3.0-IV0", "3.0-IV1", "3.3"),
    *(
        "3.3-IV0",
        "3.3.1",
        "3.9",
        "3.9.2",
        "3.9-IV1",
        "4",
        "4.0",
        "4.0-IV1",
        "4.3",
        "4.3-IV0",
        "4.4",
        "4.4-IV0",
        "bogus",
    ),
)


def printed(program: str, release: Release, *arguments: str) -> Iterator[list[str]]:
    source = Path(__file__).parent / "kafka_tables" / f"{program}.java"
    command = [jars.require("java"), *jars.QUICK, "-cp", jars.classpath(JARS[release]), str(source), *arguments]
    done = subprocess.run(command, capture_output=True, text=True, timeout=120, check=True)
    for line in done.stdout.splitlines():
        yield line.split(" ", 2)


def outcome(call: Callable[[], object]) -> str:
    try:
        return str(call())
    except JavaError as error:
        return str(error.message)


@pytest.mark.slow
@pytest.mark.parametrize("release", Release)
def test_requests_and_their_versions_are_those_of_kafkas_clients(release: Release) -> None:
    known, asked = known_versions(release), asked_by_clients(release)
    ours = [
        [str(number), api_name(number, release), f"{each.lowest} {each.highest} {str(number in asked).lower()}"]
        for number, each in known.items()
    ]
    assert ours == list(printed("ApiTables", release))


@pytest.mark.slow
@pytest.mark.parametrize("release", Release)
def test_levels_of_features_are_those_of_kafkas_broker(release: Release) -> None:
    program = "FeatureTables" if release is Release.V4_3 else "OlderFeatureTables"
    for kind, subject, rest in printed(program, release, *RELEASES):
        if kind in ("parsed", "refused"):
            assert outcome(lambda: metadata_level(subject, release)) == rest  # noqa: B023
        elif kind in ("metadata", "unknown"):
            assert outcome(lambda: metadata_version(int(subject), release)) == rest  # noqa: B023
        elif kind == "latest":
            assert latest_version(release) == rest
        elif kind == "default":
            metadata, level = map(int, rest.split())
            assert default_level(subject, metadata) == level
        else:
            number, needs = rest.split(" ", 1)
            shown = ", ".join(f"{name}={level}" for name, level in level_of(subject, int(number)).needs.items())
            assert f"{{{shown}}}" == needs


def test_an_unknown_level_of_a_feature_is_refused() -> None:
    for feature, levels in FEATURES.items():
        for number in (-1, len(levels)):
            with pytest.raises(JavaError, match=f"No feature:{feature} with feature level {number}"):
                level_of(feature, number)


def test_a_line_shows_the_version_that_kafkas_client_would_send() -> None:
    offered = {0: VersionRange(0, 2), 1: VersionRange(4, 99), 2: VersionRange(12, 13), 4: VersionRange(0, 7)}
    found = lines({**offered, 18: VersionRange(0, 0), 999: VersionRange(0, 1)}, Release.V4_3)
    assert found[:5] == [
        "Produce(0): 0 to 2 [unusable: node too old]",
        "Fetch(1): 4 to 99 [usable: 18]",
        "ListOffsets(2): 12 to 13 [unusable: node too new]",
        "Metadata(3): UNSUPPORTED",
        "LeaderAndIsr(4): 0 to 7 [unusable: node too new]",
    ]
    assert "ApiVersions(18): 0 [usable: 0]" in found
    assert found[-1] == "UNKNOWN(999): 0 to 1"
    assert "ListClientMetricsResources(74): UNSUPPORTED" in lines(offered, Release.V3_9)
    assert "ListConfigResources(74): UNSUPPORTED" in lines(offered, Release.V4_3)
