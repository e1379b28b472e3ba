"""The documents name what there is: files, anchors, and the commands of the Makefile."""

import os
import re
import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest
from ruamel.yaml import YAML

ROOT = Path(__file__).resolve().parents[2]
DOCUMENTS = [ROOT / "README.md", ROOT / "CONTRIBUTING.md", *sorted((ROOT / "docs").rglob("*.md"))]
LINK = re.compile(r"\]\(((?!\w+:)[^)\s]+)\)")
PYTHON_FILE = re.compile(r"`([\w./-]+/[\w.-]+\.py)`")
# A `make` that runs these tests must not pass its own options on.
ENVIRONMENT = {name: value for name, value in os.environ.items() if not name.startswith(("MAKE", "MFLAGS"))}

needs_make = pytest.mark.skipif(shutil.which("make") is None, reason="make is missing")


def make(*arguments: str) -> list[str]:
    command = ["make", "--no-print-directory", *arguments]
    done = subprocess.run(command, cwd=ROOT, env=ENVIRONMENT, capture_output=True, text=True, check=True)
    return done.stdout.splitlines()


def anchors(document: Path) -> Iterator[str]:
    """Yield the anchors of a document's headings, as GitHub makes them."""
    text = re.sub(r"^```.*?^```", "", document.read_text(), flags=re.DOTALL | re.MULTILINE)
    for heading in re.findall(r"^#+ (.+)$", text, re.MULTILINE):
        shown = re.sub(r"\[([^]]*)\]\([^)]*\)", r"\1", heading)
        yield re.sub(r"[^\w -]", "", shown.lower()).replace(" ", "-")


def leads_somewhere(document: Path, link: str) -> bool:
    path, _, anchor = link.partition("#")
    target = document.parent / path if path else document
    return target.exists() and (not anchor or anchor in anchors(target))


@needs_make
def test_make_help_names_every_target_with_a_comment() -> None:
    commented = re.findall(r"^([\w-]+):.*## (.+)$", (ROOT / "Makefile").read_text(), re.MULTILINE)
    assert ("help", "Print this list.") in commented
    assert [tuple(line.split(maxsplit=1)) for line in make("help")] == sorted(commented)


@needs_make
def test_the_pre_commit_hooks_run_the_commands_of_make_check() -> None:
    hooks = [hook for repo in YAML().load(ROOT / ".pre-commit-config.yaml")["repos"] for hook in repo["hooks"]]
    assert {hook["language"] for hook in hooks} == {"system"}
    assert not any(hook["pass_filenames"] for hook in hooks)
    assert all(hook["always_run"] for hook in hooks)
    # The set-up is left out: nothing is older than this stamp.
    commands = make("--dry-run", "--assume-old=.venv/test.stamp", "check")
    assert [hook["entry"].removeprefix("env ") for hook in hooks] == commands


def test_every_link_leads_to_a_file_and_an_anchor_that_exist() -> None:
    links = [(document, link) for document in DOCUMENTS for link in LINK.findall(document.read_text())]
    assert len(links) > 50
    lost = [f"{document.relative_to(ROOT)}: {link}" for document, link in links if not leads_somewhere(document, link)]
    assert lost == []


def test_every_python_file_in_backquotes_exists() -> None:
    # Rows of evidence name the files of their commits.
    current = [document for document in DOCUMENTS if "evidence" not in document.parts]
    named = [(document, name) for document in current for name in PYTHON_FILE.findall(document.read_text())]
    assert named
    lost = [f"{document.relative_to(ROOT)}: {name}" for document, name in named if not (ROOT / name).exists()]
    assert lost == []
