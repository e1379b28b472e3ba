"""`ottla pipeline example`: the examples run where the command wrote them."""

from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from ottla.cli import main
from ottla.commands import example_jobs, pipelines


def example(*arguments: str) -> Result:
    return CliRunner().invoke(main, ["pipeline", "example", *arguments])


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    return tmp_path


def test_without_a_name_each_example_is_a_line_with_its_summary() -> None:
    listed = example().stdout.splitlines()
    assert [line.split()[0] for line in listed] == example_jobs.names()
    assert listed[0] == (
        "ingest-files      Lines of files that come to a folder become records of a topic, keyed by customer."
    )


@pytest.mark.parametrize("name", example_jobs.names())
def test_an_example_can_be_run_where_it_was_written(
    name: str, folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    written = example(name)
    assert (written.exit_code, written.stderr) == (0, "")
    paths = written.stdout.splitlines()
    assert paths == [str(path.relative_to(folder)) for path in sorted(folder.rglob("*")) if path.is_file()]
    assert f"ottla pipeline run {paths[0]} --once" in Path(paths[0]).read_text()
    assert pipelines.validate(Path(paths[0]), pipelines.Place()) == 0
    assert capsys.readouterr().out == f"{paths[0]}: {name} can be run\n"


def test_the_files_that_a_job_reads_are_written_with_it() -> None:
    example("ingest-files")
    assert [path.name for path in sorted(Path("examples/orders").iterdir())] == ["2026-01.csv", "2026-02.csv"]


def test_a_changed_example_is_not_overwritten() -> None:
    example("mirror")
    assert example("mirror").exit_code == 0
    Path("examples/mirror.toml").write_text("mine")
    again = example("mirror")
    assert (again.exit_code, again.stdout, Path("examples/mirror.toml").read_text()) == (1, "", "mine")
    assert again.stderr == "ottla: examples/mirror.toml exists and differs from the example; nothing is written\n"


def test_an_unknown_name_is_refused_in_one_line_with_the_known_names() -> None:
    refused = example("../mirror")
    assert refused.exit_code == 1
    assert refused.stderr == (
        "ottla: there is no example '../mirror'; there are ingest-files, mirror, topic-to-parquet, windowed-count\n"
    )
