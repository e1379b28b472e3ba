"""The walk over records, in its plain and its compiled form."""

import os
import random
import subprocess
import sys
from collections.abc import Callable, Iterator
from importlib.util import module_from_spec, spec_from_file_location
from types import ModuleType
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ottla.wire import build_scan, native_scan, record_scan
from ottla.wire.record_builder import NewRecord, append_varint, build_batch
from tests.jars import require

MIN, MAX = -(2**63), 2**63 - 1


def built_in(folder: Any) -> ModuleType:
    require("cc")
    spec = spec_from_file_location(native_scan.NATIVE, build_scan.build(folder))
    assert spec is not None
    assert spec.loader is not None
    module = module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.fixture(scope="session")
def compiled(tmp_path_factory: pytest.TempPathFactory) -> ModuleType:
    if native_scan.SCAN_IS_COMPILED:
        return sys.modules[native_scan.RecordScan.__module__] if False else native_scan.FORM
    return built_in(tmp_path_factory.mktemp("native"))


@pytest.fixture(params=["plain", "compiled"])
def form(request: pytest.FixtureRequest) -> Any:
    return record_scan if request.param == "plain" else request.getfixturevalue("compiled")
