"""Which tests run with compiled modules, and which run first."""

from pathlib import Path

from tests.harness.schedule import SECONDS, importers_of_compiled_modules, read_seconds


def test_compiled_modules_are_found_behind_any_number_of_imports_and_behind_conftests() -> None:
    found = importers_of_compiled_modules()
    assert "tests.log.test_reading" in found
    # Imported by a helper, and by a fixture of the folder.
    assert "tests.broker.replicas.test_partition" in found
    assert "tests.broker.handlers.test_api_versions" in found
    assert found.isdisjoint({"tests.wire.test_config_def", "tests.zk.test_znodes", "tests.pipeline.test_transforms"})


def test_a_file_holds_the_seconds_of_groups_of_tests(tmp_path: Path) -> None:
    file = tmp_path / "seconds.txt"
    assert read_seconds(file) == {}
    file.write_text("12 spark\n3.5 tests/a file.py\n")
    assert read_seconds(file) == {"spark": 12.0, "tests/a file.py": 3.5}
    assert read_seconds(SECONDS)["spark"] > 0
