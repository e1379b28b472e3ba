"""What has to be there before Spark starts."""

import importlib.util
import os
import shutil
from pathlib import Path

import pytest

from ottla.pipeline.session import NoSparkError, installed


def test_a_missing_pyspark_is_said_in_one_line(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: None)
    with pytest.raises(NoSparkError, match=r"^PySpark is not installed: pip install 'ottla\[spark\]'$"):
        installed()


def test_a_missing_java_is_said_in_one_line(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: object())
    monkeypatch.setattr(shutil, "which", lambda name: None)
    monkeypatch.delitem(os.environ, "JAVA_HOME", raising=False)
    with pytest.raises(NoSparkError, match=r"^there is no java: install Java 17"):
        installed()


def test_a_java_home_without_a_java_is_said_in_one_line(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: object())
    monkeypatch.setenv("JAVA_HOME", str(tmp_path))
    with pytest.raises(NoSparkError, match=f"^JAVA_HOME is {tmp_path}, where there is no bin/java"):
        installed()
