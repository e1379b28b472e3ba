"""Paths of jobs: which are on this machine, and what has to be there."""

from collections.abc import Callable
from pathlib import Path

import pytest

from ottla.pipeline.filesystem import local_path, require_found, require_parent
from ottla.pipeline.settings import JobError, Settings
from tests.pipeline.jobs import keys


@pytest.mark.parametrize(
    ("path", "local"),
    [
        ("a/b", "a/b"),
        ("/a/b", "/a/b"),
        ("file:/a/b", "/a/b"),
        ("file:///a/b", "/a/b"),
        ("hdfs://host/a", None),
        ("s3a://bucket/a", None),
    ],
)
def test_a_path_is_local_unless_another_file_system_is_named(path: str, local: str | None) -> None:
    assert local_path(path) == (None if local is None else Path(local))


@pytest.mark.parametrize("path", ["", "/*.log", "/a?", "/[ab]", "/{a,b}/*", "/sub", "/sub/*/*.log"])
def test_what_stands_before_a_pattern_has_to_be_there(tmp_path: Path, path: str) -> None:
    (tmp_path / "sub").mkdir()
    for scheme in ("", "file:", "file://"):
        assert require_found(keys("source", path=f"{scheme}{tmp_path}{path}"), "path").endswith(path)
    with pytest.raises(JobError, match=r"source.path names .*none.*, which is not there"):
        require_found(keys("source", path=f"{tmp_path}/none{path}"), "path")


def test_relative_paths_begin_where_the_job_runs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    for path in (".", "*.log", "./*/x"):
        require_found(keys("source", path=path), "path")
    require_parent(keys("sink", path="x"), "path")
    with pytest.raises(JobError, match=r"sink.path is to lie in .*/none, which is not there"):
        require_parent(keys("sink", path="none/x"), "path")
    with pytest.raises(JobError, match=r"source.path names none, which is not there"):
        require_found(keys("source", path="none/*"), "path")


@pytest.mark.parametrize("require", [require_found, require_parent])
def test_a_path_that_no_file_can_have_is_told_with_its_key(require: Callable[[Settings, str], str]) -> None:
    with pytest.raises(JobError, match=r"source.path is a path that cannot be looked at: File name too long"):
        require(keys("source", path=f"/{'a' * 5000}/b"), "path")
