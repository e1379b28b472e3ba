"""The compiled form of the hot path: it runs if it fits the sources; otherwise plain Python runs."""

import fcntl
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from compat_tests.support.jars import require
from ottla import native
from ottla.build_native import build

COMPILED = """
broker.fetch.long_poll broker.fetch.responses broker.fetch.sessions
broker.groups.group_requests
broker.handlers.fetch broker.handlers.offset_commit broker.handlers.produce
broker.internal_topics.committed_appends broker.internal_topics.loader broker.internal_topics.topic_log
broker.loop.deferred broker.loop.turn
broker.net.buffers broker.net.connection broker.net.outbox broker.net.reply broker.net.session broker.net.transport
broker.replicas.hosted broker.replicas.in_sync broker.replicas.manager
broker.replicas.partition broker.replicas.produce_responses broker.replicas.reads broker.replicas.waits
broker.replicas.watchers
broker.requests.dispatch
coordinator.effects coordinator.group coordinator.group_coordinator coordinator.group_shard coordinator.offsets
coordinator.runtime coordinator.timers
log.append log.append_info
log.compaction.cleaned_transactions log.compaction.cleaner log.compaction.offset_map
log.flushing log.log
log.recovery.recovery
log.segments.batch_order log.segments.index log.segments.index_check log.segments.open_files log.segments.segment
log.segments.segment_check log.segments.segments
log.state.leader_epochs log.state.producer_entry log.state.producer_state log.state.verification
log.write_pace
pipeline.log_source_columns
wire.records.batch_header wire.codec wire.framing wire.records.builder wire.records.filter wire.records.reader
wire.records.scan wire.records.validation
"""
WHAT_RUNS = "import sys, ottla.log.segments.segment as s; sys.stdout.write(s.__file__)"


def copy_of_the_package(folder: Path) -> Path:
    """Return a copy of the package as pip installs it: with folders in place of the links to rooms."""
    ignored = shutil.ignore_patterns("__pycache__", "_native")
    shutil.copytree(native.PACKAGE, folder / "ottla", ignore=ignored)
    return folder / "ottla"


def run(package: Path, *arguments: str, **environment: str) -> subprocess.CompletedProcess[str]:
    inherited = {name: value for name, value in os.environ.items() if name != native.PLAIN}
    command = [sys.executable, *arguments]
    return subprocess.run(
        command, cwd=package.parent, env=inherited | environment, capture_output=True, text=True, check=False
    )


def what_runs(package: Path, **environment: str) -> str:
    done = run(package, "-c", WHAT_RUNS, **environment)
    assert not done.returncode, done.stderr
    return Path(done.stdout).suffix


def test_every_module_exists_and_the_list_is_sorted() -> None:
    assert all(native.source(module).is_file() for module in native.MODULES)
    assert sorted(native.MODULES) == list(native.MODULES)


def test_these_modules_are_compiled() -> None:
    assert set(native.MODULES) == set(COMPILED.split())


def test_a_module_has_the_form_that_is_used_returns() -> None:
    from ottla.log.segments import segment

    assert Path(segment.__file__).suffix == (".so" if native.is_used() else ".py")


@pytest.mark.slow
def test_tests_of_processes_run_the_compiled_form() -> None:
    require("cc")
    assert native.is_used() or native.PLAIN in os.environ


@pytest.mark.slow
@pytest.mark.timeout(600)
def test_the_compiled_form_runs_until_a_source_changes(tmp_path: Path) -> None:
    require("cc")
    package = copy_of_the_package(tmp_path)
    assert what_runs(package) == ".py"
    target = package / native.FOLDER.relative_to(native.PACKAGE)
    if native.is_used():
        shutil.copytree(native.FOLDER, target)
    else:
        steps: list[str] = []
        build(target, steps.append)
        assert steps[0] == f"translating {len(native.MODULES)} modules to C ..."
        assert sorted(steps[2:]) == [f"compiled {group}" for group in sorted(native.GROUPS)]
    assert what_runs(package) == ".so"
    assert what_runs(package, OTTLA_PLAIN="1") == ".py"
    with (package / "log" / "segments" / "segment.py").open("a") as source:
        source.write("# edited\n")
    assert what_runs(package) == ".py"


def test_the_compiled_form_of_another_python_is_ignored(tmp_path: Path) -> None:
    package = copy_of_the_package(tmp_path)
    (package / native.FOLDER.relative_to(native.PACKAGE) / native.digest()).mkdir(parents=True)
    another = "import importlib.machinery as m; m.EXTENSION_SUFFIXES.insert(0, '.another-python.so')"
    ask = "import sys; from ottla import native; sys.stdout.write(str(native.is_used()))"
    assert [run(package, "-c", code).stdout for code in (ask, f"{another}; {ask}")] == ["True", "False"]


def test_a_background_build_returns_at_once(tmp_path: Path) -> None:
    package = copy_of_the_package(tmp_path)
    # A syntax error ends the build at once. The build begins when no other build holds the package.
    (package / "log" / "segments" / "segment.py").write_text("class Segment(:\n")
    another_build = os.open(package, os.O_RDONLY)
    fcntl.flock(another_build, fcntl.LOCK_EX)
    command = [sys.executable, "-m", "ottla.build_native", "--background"]
    environment = os.environ | {"CC": sys.executable}
    with subprocess.Popen(command, cwd=tmp_path, env=environment, stderr=subprocess.PIPE, text=True) as process:
        assert process.wait(60) == 0
        os.close(another_build)
        assert process.stderr is not None
        said = process.stderr.read().splitlines()
    assert said[0].startswith("Compiling the hot path in the background")
    assert said[-1].startswith("nothing is compiled, plain Python runs: ")


def test_without_a_c_compiler_no_background_build_starts(tmp_path: Path) -> None:
    done = run(copy_of_the_package(tmp_path), "-m", "ottla.build_native", "--background", CC="no-such-compiler")
    assert done.returncode == 0
    assert done.stderr == "there is no C compiler: the broker runs in plain Python, slower\n"


def test_a_failed_build_prints_one_line_and_leaves_nothing_behind(tmp_path: Path) -> None:
    package = copy_of_the_package(tmp_path)
    command = "-m", "ottla.build_native"
    # A syntax error fails as a missing compiler does, and sooner.
    (package / "log" / "segments" / "segment.py").write_text("class Segment(:\n")
    done = run(package, *command, "--if-possible")
    assert (done.returncode, done.stdout) == (0, "")
    assert done.stderr.splitlines()[-1].startswith("nothing is compiled, plain Python runs: ")
    quiet = run(package, *command, "--quiet")
    assert (quiet.returncode, quiet.stdout, quiet.stderr.count("\n")) == (1, "", 1)
    assert not (package / "_native").exists()
