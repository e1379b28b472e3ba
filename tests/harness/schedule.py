"""Which tests run in one process, and which run first, if several processes run tests (`--dist loadfile`).

The tests of a file run in one process. Tests marked `process(NAME)` run in one process with all others of that name:
those of Spark, because Spark takes long to start, and parts of files that take too long. The longest groups run first,
so that all processes end together; `seconds.txt` holds the seconds of each group in one run.
`--where-compiled` leaves out the fast tests of files that import no compiled module, directly or indirectly.
"""

import json
import tempfile
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import pytest

SECONDS = Path(__file__).parent / "seconds.txt"
NOTES = "harness_notes"
"""The key of the file with names of tests that a worker writes for the scheduling process."""
PROCESS, ONCE = "process", "once"


class Notes(NamedTuple):
    """The group of each chosen test, and the tests marked ONCE."""

    groups: Mapping[str, str]
    once: Sequence[str]


_notes = pytest.StashKey[tempfile.TemporaryDirectory[str]]()


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.getgroup("ottla tests").addoption(
        "--where-compiled", action="store_true", help="of fast tests, run those that compiled modules have a part in"
    )


@pytest.hookimpl(trylast=True)
def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Apply `--where-compiled`; in a worker, sort the groups by their seconds."""
    if config.option.where_compiled:
        compiled = importers_of_compiled_modules()
        kept = [each for each in items if each.get_closest_marker("slow") or _module_of(each) in compiled]
        chosen = set(kept)
        config.hook.pytest_deselected(items=[each for each in items if each not in chosen])
        items[:] = kept
    if hasattr(config, "workerinput"):
        seconds = read_seconds(SECONDS)
        # Sorting keeps the order within a file, and the tests of a file together.
        items.sort(key=lambda each: (-seconds.get(_group_of(each), 0.0), _group_of(each)))


def _module_of(item: pytest.Item) -> str:
    return str(item.getparent(pytest.Module).obj.__name__)  # type: ignore[union-attr]


def _group_of(item: pytest.Item) -> str:
    marker = item.get_closest_marker(PROCESS)
    return marker.args[0] if marker is not None else item.nodeid.partition("::")[0]


def importers_of_compiled_modules() -> set[str]:
    """Return the test modules that import compiled modules, directly, indirectly or by their conftests."""
    import grimp

    from ottla.native import MODULES

    graph = grimp.build_graph("ottla", "tests")
    found = set().union(*(graph.find_downstream_modules(f"ottla.{module}") for module in MODULES))
    by_conftest = tuple(each.removesuffix("conftest") for each in found if each.endswith(".conftest"))
    return found | {each for each in graph.modules if each.startswith("tests.") and each.startswith(by_conftest)}


def read_seconds(path: Path) -> dict[str, float]:
    """Return the seconds of each group of tests. A line holds seconds, then the group."""
    lines = path.read_text().splitlines() if path.exists() else []
    return {group: float(seconds) for seconds, group in (line.split(maxsplit=1) for line in lines)}


# From the collecting processes to the scheduling one


def pytest_configure(config: pytest.Config) -> None:
    if not hasattr(config, "workerinput"):
        config.stash[_notes] = tempfile.TemporaryDirectory(prefix="notes-")


def pytest_unconfigure(config: pytest.Config) -> None:
    if _notes in config.stash:
        config.stash[_notes].cleanup()


@pytest.hookimpl(optionalhook=True)
def pytest_configure_node(node: Any) -> None:
    """Pass the path for notes to each worker of pytest-xdist."""
    node.workerinput[NOTES] = str(_path_of_notes(node.config))


def _path_of_notes(config: pytest.Config) -> Path:
    return Path(config.stash[_notes].name) / "notes.json"


@pytest.hookimpl(tryfirst=True)
def pytest_collection_finish(session: pytest.Session) -> None:
    """Write the group of each test, and the names of tests marked ONCE; all workers write the same."""
    given = getattr(session.config, "workerinput", {}).get(NOTES)
    path = Path(given) if given else _path_of_notes(session.config)
    notes = Notes(
        {item.nodeid: _group_of(item) for item in session.items},
        [item.nodeid for item in session.items if item.get_closest_marker(ONCE)],
    )
    with tempfile.NamedTemporaryFile("w", dir=path.parent, delete=False) as file:
        json.dump(notes, file)
    Path(file.name).replace(path)


def read_notes(config: pytest.Config) -> Notes:
    """Return what the collecting processes know of the chosen tests, for the scheduling process."""
    path = _path_of_notes(config)
    return Notes(*json.loads(path.read_text())) if path.exists() else Notes({}, ())


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_make_scheduler(config: pytest.Config, log: Any) -> Any:
    """With `--dist loadfile`, run all tests of a group in one process."""
    if config.getvalue("dist") != "loadfile":
        return None
    from xdist.scheduler import LoadFileScheduling

    # Files run in the order of collection, not by their number of tests.
    config.option.loadscopereorder = False

    class ByGroup(LoadFileScheduling):  # type: ignore[misc]
        def schedule(self) -> None:
            self.groups = read_notes(config).groups
            super().schedule()

        def _split_scope(self, nodeid: str) -> str:
            return self.groups[nodeid]

    return ByGroup(config, log)
