"""Scripts with the names of Kafka's tools, on the PATH of a script that calls the tools."""

import os
import subprocess
from pathlib import Path

import pytest

from ottla.scripts.kafka import TOOLS
from ottla.scripts.kafka.absent import ABSENT
from tests.scripts.running import PATIENCE_S, ottla


@pytest.mark.parametrize(("release", "version"), [("4.3", "4.3.1"), ("3.9", "3.9.2")])
def test_a_script_finds_the_tools_under_kafkas_names(tmp_path: Path, release: str, version: str) -> None:
    bin_folder = tmp_path / "bin of mine"
    ended = ottla("install-shims", str(bin_folder), "--as", release, "-o", "json")
    assert ended.code == 0
    assert {item["tool"] for item in ended.items} == {*TOOLS, *ABSENT}
    path = {**os.environ, "PATH": f"{bin_folder}:{os.environ['PATH']}"}
    for name in ("kafka-topics.sh", "kafka-topics"):
        done = subprocess.run([name, "--version"], env=path, capture_output=True, text=True, timeout=PATIENCE_S)
        assert (done.returncode, done.stdout) == (0, f"{version}\n")
    absent = subprocess.run(["kafka-jmx.sh"], env=path, capture_output=True, text=True, timeout=PATIENCE_S)
    assert (absent.returncode, absent.stdout) == (1, "")
    assert absent.stderr.startswith("kafka-jmx: not imitated: ")


def test_files_of_other_programs_are_not_replaced_without_overwrite(tmp_path: Path) -> None:
    theirs = tmp_path / "kafka-topics.sh"
    theirs.write_text("#!/bin/sh\nexec java ...\n")
    refused = ottla("install-shims", str(tmp_path))
    assert refused.code == 2
    assert "kafka-topics.sh" in refused.stderr
    assert sorted(path.name for path in tmp_path.iterdir()) == ["kafka-topics.sh"]
    assert ottla("install-shims", str(tmp_path), "--overwrite").code == 0
    assert "ottla" in theirs.read_text()
    assert ottla("install-shims", str(tmp_path)).code == 0
