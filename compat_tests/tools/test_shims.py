"""Ottla's imitation of Kafka's tools has the same output, word for word, and the same exit codes as the tools.

Two equal brokers of one kind get the same commands: one by Kafka's tools, the other by the imitation. `make test` runs
the tools of Kafka 4.3 on Ottla, `make compat` those of 4.3 and 3.9 on all brokers.
"""

import contextlib
import functools
import importlib
import json
import shlex
import time
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType
from typing import NamedTuple

import pytest

from compat_tests.support.brokers import (
    LAST_WITH_ZOOKEEPER,
    NEWEST,
    ApacheKafka,
    Broker,
    Ottla,
    ZooKeeperKafka,
    running,
)
from compat_tests.support.tools import Printed, Runs, Tools, normalized
from compat_tests.tools.imitation import AREAS
from compat_tests.tools.imitation.tools import CLASSES, OLDER_CLASSES, Shims, without_help
from compat_tests.tools.tool_scenarios import HASTY

pytestmark = pytest.mark.slow
LOOKS = ("--describe", "--list", "get-offsets")
TRIES = 50
WITHOUT_SERVER: tuple[list[str], ...] = ([], ["--help"], ["--version"])
LOCAL_TOOLS = ("dump-log", "storage")
BROKER_OF = {kind.name: kind for kind in (Ottla, ApacheKafka, ZooKeeperKafka)}
MODULES: dict[str, ModuleType] = {
    area: importlib.import_module(f"compat_tests.tools.imitation.{area}") for area in AREAS
}


class Setting(NamedTuple):
    """The tools of a release, a kind of broker, and an area."""

    release: str
    kind: str
    area: str

    def __str__(self) -> str:
        return f"{self.area}-{self.release}-{self.kind}"


class Sides(NamedTuple):
    """Kafka's tools with a broker, and the imitation with another broker."""

    setting: Setting
    theirs: tuple[Runs, Broker]
    ours: tuple[Runs, Broker]


def settings() -> Iterator[Setting]:
    """Return the settings to run; on Ottla none that needs an API that it lacks."""
    for area, module in MODULES.items():
        for kind in getattr(module, "BROKERS", BROKER_OF):
            releases = ("4.3",) if kind == ApacheKafka.name else ("4.3", "3.9")
            for release in getattr(module, "RELEASES", releases):
                yield Setting(release, kind, area)


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    """Parametrize each test with the scenarios of each area, on brokers that all scenarios of the area share."""
    found = []
    for each in settings():
        module = MODULES[each.area]
        is_quick = each.release == "4.3" and each.kind == getattr(module, "QUICK", Ottla.name)
        marks = [pytest.mark.process(f"shims: {each}"), *([] if is_quick else [pytest.mark.compat])]
        for name in module.COMMANDS:
            found.append(pytest.param(each, name, id=f"{each.kind}-{each.release}-{name}", marks=marks))
    metafunc.parametrize(("sides", "name"), found, indirect=["sides"], scope="module")


def folder_of_files(folder: Path, module: ModuleType) -> Path:
    for name, content in getattr(module, "FILES", {}).items():
        (folder / name).write_text(content if isinstance(content, str) else json.dumps(content))
    (folder / "hasty.properties").write_text(HASTY)
    return folder


@pytest.fixture(scope="module")
def sides(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Sides]:
    setting: Setting = request.param
    module = MODULES[setting.area]
    jars = NEWEST if setting.release == "4.3" else LAST_WITH_ZOOKEEPER
    overrides = [
        "group.initial.rebalance.delay.ms=0",
        "broker.id=1" if setting.kind == ZooKeeperKafka.name else "node.id=1",
        *getattr(module, "SETTINGS", {}).get(setting.kind, ()),
    ]
    shims = Shims(folder_of_files(tmp_path_factory.mktemp("shims"), module), setting.release)
    with contextlib.ExitStack() as stack:
        tools = stack.enter_context(Tools(folder_of_files(tmp_path_factory.mktemp("tools"), module), jars))
        kind = {**BROKER_OF, **getattr(module, "KINDS", {})}[setting.kind]
        brokers = [stack.enter_context(running(kind, overrides)) for _ in range(2)]
        for broker in brokers:
            made = module.prepare(tools, broker) if hasattr(module, "prepare") else None
            if made is not None:
                stack.callback(made.close)
        yield Sides(setting, (tools, brokers[0]), (shims, brokers[1]))


def run(side: tuple[Runs, Broker], release: str, command: str) -> Printed:
    runs, broker = side
    names = {**broker.names, "BOOTSTRAP": broker.bootstrap}
    filled = functools.reduce(lambda text, name: text.replace(name, names[name]), names, command)
    tool, *arguments = shlex.split(filled)
    has_server = "BOOTSTRAP" in command or arguments in WITHOUT_SERVER or tool in LOCAL_TOOLS
    where = [] if has_server else ["--bootstrap-server", broker.bootstrap]
    classes = CLASSES if release == "4.3" else OLDER_CLASSES
    printed = runs.run(classes[tool], *where, *arguments)
    shown = {value: name for name, value in broker.names.items()}
    return without_help(normalized(printed, {**shown, broker.bootstrap: "HOST:PORT", str(broker.data): "DATA"}))


def test_the_imitation_prints_what_the_tool_prints(sides: Sides, name: str) -> None:
    module = MODULES[sides.setting.area]
    plain = getattr(module, "normalized", lambda command, printed: printed)
    for command in filter(None, map(str.strip, module.COMMANDS[name].splitlines())):
        for _ in range(TRIES if any(word in command for word in LOOKS) else 1):
            theirs, ours = (
                plain(command, run(each, sides.setting.release, command)) for each in (sides.theirs, sides.ours)
            )
            if theirs == ours:
                break
            time.sleep(0.1)
        assert (command, ours) == (command, theirs)
