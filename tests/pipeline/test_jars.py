"""Which jars a version of PySpark needs."""

from pathlib import Path

import pytest

from compat_tests.support.jars import SPARK
from ottla.pipeline.jars import AVRO, DELTA, ICEBERG, KAFKA, NoJarsError, coordinates, file_name, settings


def test_what_the_tests_run_with_is_what_users_of_that_version_get() -> None:
    assert set(coordinates([KAFKA, AVRO, DELTA, "sqlite", "postgresql"], "4.2.0")) <= set(SPARK)


@pytest.mark.parametrize("patches", [("4.0.0", "4.0.5"), ("4.1.0", "4.1.4"), ("4.2.0", "4.2.1")])
def test_all_patches_of_a_release_get_the_jars_of_that_release(patches: tuple[str, str]) -> None:
    first, last = (coordinates([KAFKA, AVRO, DELTA], each) for each in patches)
    assert first == last
    minor = patches[0][:3]
    assert any(each.startswith(f"org.apache.spark:spark-sql-kafka-0-10_2.13:{minor}.") for each in first)
    assert any(each.startswith(f"io.delta:delta-spark_{minor}_2.13:") for each in first)


@pytest.mark.parametrize("minor", ["4.0", "4.1"])
def test_a_jar_that_is_needed_twice_is_named_once_and_iceberg_is_that_of_the_release(minor: str) -> None:
    (jar,) = coordinates([ICEBERG, ICEBERG], f"{minor}.3")
    assert jar.startswith(f"org.apache.iceberg:iceberg-spark-runtime-{minor}_2.13:")


@pytest.mark.parametrize(
    ("needs", "spark", "line"),
    [
        ([KAFKA], "3.5.1", "PySpark 3.5.1 is installed; known are 4.0, 4.1, 4.2: install one of them"),
        ([], "4.3.0", "PySpark 4.3.0 is installed; known are 4.0, 4.1, 4.2: install one of them"),
        ([ICEBERG], "4.2.0", "there is no Iceberg for PySpark 4.2.0: install PySpark 4.0 or 4.1"),
    ],
)
def test_what_there_is_not_is_said_in_one_line(needs: list[str], spark: str, line: str) -> None:
    with pytest.raises(NoJarsError) as error:
        coordinates(needs, spark)
    assert str(error.value) == line


def test_a_directory_of_jars_has_to_have_all(tmp_path: Path) -> None:
    wanted = coordinates([AVRO, DELTA], "4.2.0")
    for each in wanted[1:]:
        (tmp_path / file_name(each)).touch()
    with pytest.raises(NoJarsError, match=f"lacks {file_name(wanted[0])}$"):
        settings([AVRO, DELTA], "4.2.0", tmp_path, tmp_path)
    (tmp_path / file_name(wanted[0])).touch()
    found = settings([AVRO, DELTA], "4.2.0", tmp_path, tmp_path)
    assert sorted(map(Path, found["spark.jars"].split(","))) == sorted(tmp_path / file_name(each) for each in wanted)


def test_a_job_without_needs_brings_nothing(tmp_path: Path) -> None:
    assert settings([], "4.2.0", None, tmp_path) == {}
