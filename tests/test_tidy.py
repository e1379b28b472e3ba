"""What no tool checks: sizes, and that nothing here speaks of the machine that it was written on."""

import ast
import re
from collections.abc import Iterator
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
ROOMS = "benchmarks broker compat_tests coordinator docs log ottla pipeline scripts tests wire zk .ci"
MOST_LINES = 500
MOST_LINES_OF_A_FUNCTION = 60
TEXT = {".py", ".md", ".toml", ".txt", ".csv", ".java", ".properties", ".sh", ""}
# Spelt in pieces, so that this file does not find itself.
MACHINE_PATHS = re.compile(
    "(?<![A-Za-z0-9_.}])/(?:" + "|".join(["wor" + "k", "roo" + "t", "hom" + "e", "User" + "s"]) + ")/"
)
REGISTRIES = re.compile(
    "|".join(
        [
            "pypi" + r"\.org",
            "pythonhosted" + r"\.",
            "maven" + r"\.org",
            "repo1" + r"\.",
            "artifac" + "tory",
            "--index" + "-url",
        ]
    )
)


def files() -> Iterator[Path]:
    """Every text file of the project, once: the links under ottla/ lead to rooms that are listed themselves."""
    # In a work tree of its own .git is a file that names another directory.
    yield from (path for path in ROOT.iterdir() if path.is_file() and path.suffix in TEXT and path.name != ".git")
    for room in ROOMS.split():
        for path in sorted((ROOT / room).rglob("*")):
            is_link = any(part.is_symlink() for part in [path, *path.parents] if part.is_relative_to(ROOT))
            if path.is_file() and not is_link and path.suffix in TEXT and "__pycache__" not in path.parts:
                yield path


def sources() -> list[Path]:
    return [path for path in files() if path.suffix == ".py"]


def name(path: Path) -> str:
    return str(path.relative_to(ROOT))


def test_the_rooms_are_found() -> None:
    assert {"wire/config_def.py", "ottla/cli.py", "tests/test_tidy.py", "Makefile"} <= {name(path) for path in files()}


def test_files_stay_short() -> None:
    lengths = {name(path): len(path.read_text().splitlines()) for path in sources()}
    assert {path: length for path, length in lengths.items() if length >= MOST_LINES} == {}


def test_functions_fit_on_a_screen() -> None:
    too_long = [
        f"{name(path)}:{node.lineno} {node.name}"
        for path in sources()
        for node in ast.walk(ast.parse(path.read_text()))
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)
        and (node.end_lineno or 0) - node.lineno + 1 > MOST_LINES_OF_A_FUNCTION
    ]
    assert too_long == []


def test_nothing_names_a_path_of_one_machine() -> None:
    found = [(name(path), match[0]) for path in files() for match in MACHINE_PATHS.finditer(path.read_text())]
    assert found == []


def test_nothing_names_a_package_registry() -> None:
    found = [(name(path), match[0]) for path in files() for match in REGISTRIES.finditer(path.read_text())]
    assert found == []


def test_every_room_is_linked_into_the_package() -> None:
    rooms = {path.name for path in ROOT.iterdir() if (path / "__init__.py").exists()} - {
        "ottla",
        "tests",
        "compat_tests",
        "benchmarks",
    }
    links = {path.name: str(path.readlink()) for path in (ROOT / "ottla").iterdir() if path.is_symlink()}
    assert links == {room: f"../{room}" for room in rooms}


def test_constraints_are_plain_pins() -> None:
    lines = (ROOT / "constraints.txt").read_text().splitlines()
    assert [line for line in lines if not re.fullmatch(r"[A-Za-z0-9_.-]+==[A-Za-z0-9.]+", line)] == []
