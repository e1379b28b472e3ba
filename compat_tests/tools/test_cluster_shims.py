"""Ottla's imitation of Kafka's tools has the same output as the tools in a cluster of three brokers, word for word.

Two equal clusters of one kind get the same commands: one by Kafka's tools, the other by the imitation.
"""

import contextlib
import json
import re
import subprocess
import time
from collections.abc import Iterator, Sequence
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from compat_tests.support.brokers import (
    LAST_WITH_ZOOKEEPER,
    NEWEST,
    Broker,
    Ottla,
    QuickKafka,
    ZooKeeperKafka,
    tool_command,
)
from compat_tests.support.brokers import running as broker_running
from compat_tests.support.clusters import ClusterOf, running
from compat_tests.support.tools import Printed, Runs, Tools, normalized
from compat_tests.support.zookeeper import running as zookeeper_running
from compat_tests.tools.cluster_scenarios import PATIENCE_S, SCENARIOS, SETTINGS, fill, in_step, moved, run, write_files
from compat_tests.tools.imitation.tools import CLASSES, Shims, without_help

pytestmark = [pytest.mark.slow, pytest.mark.timeout(900)]
JARS = {"4.3": NEWEST, "3.9": LAST_WITH_ZOOKEEPER}
# Without those of groups and configs, which `test_shims` compares with one broker.
COMPARED = ("topics", "reassign", "elect", "log-dirs", "offsets", "delete-records", "broker")
NAMES = [name for name in SCENARIOS if name != "configs come by way of ZooKeeper"]
TWO_DIRS = ["broker.id=1", "log.dirs=one,two"]
MOST_REPORTS = 100
QUICKEST = ("4.3", Ottla)


def settings(*kinds: type[Broker]) -> list[Any]:
    """Return the tools of each release with each kind of broker; `make test` runs only the fastest ones."""
    return [
        pytest.param(
            (release, kind),
            id=f"{kind.name}-{release}",
            marks=[] if (release, kind) == QUICKEST else [pytest.mark.compat],
        )
        for kind in kinds
        for release in JARS
    ]


class Sides(NamedTuple):
    """Kafka's tools of a release with a cluster, and the imitation with another cluster."""

    release: str
    theirs: tuple[Tools, ClusterOf]
    ours: tuple[Shims, ClusterOf]


@pytest.fixture(scope="module", params=settings(Ottla, QuickKafka))
def sides(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Sides]:
    release, kind = request.param
    folder = tmp_path_factory.mktemp("clusters")
    shims = Shims(write_files(tmp_path_factory.mktemp("shims")), release)
    with contextlib.ExitStack() as stack:
        tools = stack.enter_context(Tools(write_files(tmp_path_factory.mktemp("tools")), JARS[release]))
        zookeeper = stack.enter_context(zookeeper_running(folder / "zookeeper", ["maxSessionTimeout=60000"]))
        both = [ClusterOf(kind, folder / name, f"{zookeeper.connect}/{name}", SETTINGS) for name in ("theirs", "ours")]
        stack.enter_context(running(both))
        for each in both:
            fill(tools, each)
        yield Sides(release, (tools, both[0]), (shims, both[1]))


def plain(printed: Printed) -> Printed:
    """Leave out help, log lines, and stack traces."""
    code, stdout, stderr = without_help(printed)
    return Printed(code, re.sub(r"\n\t.*", "", stdout), re.sub(r"\n\t.*", "", stderr))


def run_compared(runs: Runs, cluster: ClusterOf, command: str) -> Printed:
    if command.split()[0] not in COMPARED:
        return Printed(0, "", "")
    return plain(run(runs, cluster, command))


@pytest.mark.parametrize("name", NAMES)
def test_the_imitation_prints_in_a_cluster_what_the_tool_prints(name: str, sides: Sides) -> None:
    for command, theirs, ours in in_step(name, [partial(run_compared, *side) for side in (sides.theirs, sides.ours)]):
        assert (command, ours) == (command, theirs)


def test_the_imitation_compares_replicas_as_the_tool_does(sides: Sides) -> None:
    tool = CLASSES["replica-verification"]
    options = ("--topics-include", "filled", "--time", "-2", "--report-interval-ms", "10", "--broker-list")
    theirs = reports(tool_command(tool, *options, sides.theirs[1].bootstrap, jars=JARS[sides.release]))
    ours = reports(sides.ours[0].command(tool, *options, sides.ours[1].bootstrap))
    if sides.release == "4.3":
        # That tool needs a version of Fetch that brokers of 3.9 do not have, so it compares nothing.
        assert theirs.pop() == "max lag is -1 for partition null at offset -1 among 2 partitions\n"
        theirs.append(ours[-1])
    assert ours == theirs
    assert ours[-1] == "max lag is 0 for partition filled-1 at offset 5 among 2 partitions\n"


def reports(command: Sequence[str]) -> list[str]:
    """Return the first line of a comparison without end, and the first line after all records were compared."""
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True) as process:
        assert process.stdout is not None
        try:
            lines = [re.sub(r"^[-\d]+ [:,\d]+: ", "", process.stdout.readline())]
            while not lines[-1].startswith("max lag is 0") and len(lines) < MOST_REPORTS:
                lines.append(re.sub(r"^[-\d]+ [:,\d]+: ", "", process.stdout.readline()))
            return [lines[0], lines[-1]]
        finally:
            process.kill()


@pytest.mark.parametrize("setting", settings(Ottla, ZooKeeperKafka))
def test_the_imitation_moves_replicas_between_log_directories_as_the_tool_does(
    setting: tuple[str, type[Broker]], tmp_path: Path
) -> None:
    release, kind = setting
    shims = Shims(tmp_path, release)
    with (
        Tools(tmp_path, JARS[release]) as tools,
        broker_running(kind, TWO_DIRS) as one,
        broker_running(kind, TWO_DIRS) as other,
    ):
        theirs, ours = (moves(runs, tools, broker, tmp_path) for runs, broker in ((tools, one), (shims, other)))
    assert ours == theirs
    assert "completed successfully" in ours[-3].stdout


def moves(runs: Runs, tools: Tools, broker: Broker, folder: Path) -> list[Printed]:
    """Return the output while the replica of a topic moves into another directory and back."""
    bootstrap = ("--bootstrap-server", broker.bootstrap)
    made = tools.run(CLASSES["topics"], *bootstrap, "--create", "--topic", "moved")
    assert made.code == 0, made
    here = Path(described(tools, broker)[0])
    there = here.with_name({"one": "two", "two": "one"}[here.name])
    plan = moved("moved", [1])
    for each in plan["partitions"]:
        each["log_dirs"] = [str(there)]
    file = folder / "plan.json"
    file.write_text(json.dumps(plan))
    reassign = (CLASSES["reassign-partitions"], *bootstrap, "--reassignment-json-file", str(file))
    lines = [runs.run(*reassign, "--verify", "--preserve-throttles")]
    lines.append(runs.run(*reassign, "--execute", "--replica-alter-log-dirs-throttle", "100000000"))
    deadline = time.monotonic() + PATIENCE_S
    while described(tools, broker) != [str(there)]:
        assert time.monotonic() < deadline, described(tools, broker)
        time.sleep(0.05)
    lines.append(runs.run(*reassign, "--verify"))
    lines.append(runs.run(CLASSES["log-dirs"], *bootstrap, "--describe", "--topic-list", "moved"))
    lines.append(runs.run(*reassign, "--cancel"))
    names = {str(here): "HERE", str(there): "THERE", str(broker.data): "DATA"}
    return [plain(normalized(each, names)) for each in lines]


def described(tools: Tools, broker: Broker) -> list[str]:
    """Return the directories of the replica: two during its move."""
    printed = tools.run(
        CLASSES["log-dirs"], "--bootstrap-server", broker.bootstrap, "--describe", "--topic-list", "moved"
    )
    dirs = json.loads(printed.stdout.splitlines()[-1])["brokers"][0]["logDirs"]
    return [each["logDir"] for each in dirs for replica in each["partitions"]]
