"""Job files in both forms."""

from pathlib import Path

import pytest

from ottla.pipeline.job import Job, problems
from ottla.pipeline.job_file import of_texts, read_settings, texts
from ottla.pipeline.settings import JobError, Settings

TOML = """\
name = "orders"
[source]
type = "topic"
topics = ["orders", "returns"]
[source.value]
type = "json"
[[transforms]]
name = "mask"
type = "MaskField$Value"
fields = ["card"]
[[transforms]]
name = "only"
type = "Filter"
[[steps]]
type = "sql"
query = "SELECT 1"
"""
PROPERTIES = """\
name=orders
source.type=topic
source.topics=orders,returns
source.value.type=json
transforms=mask,only
transforms.mask.type=MaskField$Value
transforms.mask.fields=card
transforms.only.type=Filter
steps=[{"type": "sql", "query": "SELECT 1"}]
"""


def _written(folder: Path, name: str, text: str) -> Path:
    path = folder / name
    path.write_text(text)
    return path


@pytest.mark.parametrize(("name", "text"), [("a.toml", TOML), ("a.properties", PROPERTIES)])
def test_both_forms_say_the_same(tmp_path: Path, name: str, text: str) -> None:
    found = read_settings(_written(tmp_path, name, text))
    assert found.text("name") == "orders"
    source = found.part("source")
    assert source.texts("topics") == ["orders", "returns"]
    assert source.part("value").text("type") == "json"
    assert found.texts("transforms") == ["mask", "only"]
    assert found.part("transforms.mask").texts("fields") == ["card"]
    assert found.part("transforms.only").text("type") == "Filter"
    assert found.tables("steps")[0].text("query") == "SELECT 1"


def test_the_keys_of_an_input_are_written_like_those_of_a_source(tmp_path: Path) -> None:
    text = "[[inputs]]\nname = 'a'\nstarting.offsets = 'latest'\nvalue.type = 'json'\n'value.schema' = 'id INT'"
    (found,) = read_settings(_written(tmp_path, "a.toml", text)).tables("inputs")
    assert found.text("starting.offsets") == "latest"
    assert found.part("value").all_texts() == {"type": "json", "schema": "id INT"}


def test_what_tomls_files_say_can_be_said_in_texts(tmp_path: Path) -> None:
    said = texts(read_settings(_written(tmp_path, "a.toml", "a = 1\nb = true\n[[steps]]\nfrom = 2026-01-31")))
    assert said == {"a": "1", "b": "true", "steps": '[{"from": "2026-01-31"}]'}


@pytest.mark.parametrize(
    ("name", "text", "line"),
    [
        ("a.toml", "name = ", "Invalid value"),
        ("a.properties", "name=\\u12", "Invalid"),
        ("a.json", "{}", r"a\.json: a job is a \.toml or a \.properties file"),
        ("a.toml", "[[transforms]]\ntype='x'", "each of transforms is to have a name of its own"),
        ("a.toml", "transforms = [{name = 'a'}, 'b']", "each of transforms is to have a name of its own"),
        ("a.toml", "'sink.type' = 'jdbc'\n[sink]\ntype = 'parquet'", "sink.type is there twice"),
        ("a.toml", "[source]\n'value.type' = 'json'\nvalue.type = 'avro'", "source.value.type is there twice"),
        ("a.toml", f"name = {'[' * 100_000}", r"a\.toml: "),
        ("a.properties", "steps=[", "steps is to be a list of tables in JSON"),
        ("a.properties", f"steps={'[' * 100_000}", "steps is to be a list of tables in JSON"),
    ],
)
def test_what_cannot_be_read_is_said_in_one_line(tmp_path: Path, name: str, text: str, line: str) -> None:
    with pytest.raises(JobError, match=line) as error:
        read_settings(_written(tmp_path, name, text))
    assert "\n" not in str(error.value)
    assert name in str(error.value)


def test_a_file_that_is_not_there_is_said(tmp_path: Path) -> None:
    with pytest.raises(JobError, match="No such file"):
        read_settings(tmp_path / "a.toml")


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("a.properties", "spark.sql.shuffle.partitions=2"),
        ("a.toml", "spark.sql.shuffle.partitions = 2"),
        ("a.toml", "[spark]\nsql.shuffle.partitions = 2"),
        ("a.toml", "[spark]\n'spark.sql.shuffle.partitions' = 2"),
    ],
)
def test_sparks_keys_are_its_own_however_they_are_written(tmp_path: Path, name: str, text: str) -> None:
    needed = {"source.type": "rate", "sink.type": "console"}
    job = Job(read_settings(_written(tmp_path, name, text), needed))
    assert job.spark == {"spark.sql.shuffle.partitions": "2"}


@pytest.mark.parametrize(
    ("key", "value", "said"),
    [
        ("sink.typ", "x", "sink.typ is unknown; did you mean sink.type?"),
        ("transforms", "a", "transforms.a.type is missing"),
        ("steps", "{", "steps is to be a list of tables in JSON: Expecting"),
    ],
)
def test_who_is_told_of_a_config_over_http_is_told_the_key_too(key: str, value: str, said: str) -> None:
    ((wrong, message),) = problems({"source.type": "rate", "sink.type": "console", key: value}, "orders")
    assert said.startswith(wrong)
    assert message.startswith(said)


def test_a_list_of_tables_names_the_one_that_is_wrong() -> None:
    steps = of_texts({"steps": '[{"type": "sql"}, {"kind": 1}]'}, "rest").tables("steps")
    assert isinstance(steps[1], Settings)
    with pytest.raises(JobError, match=r"^rest: steps\[1\]\.type is missing$"):
        steps[1].text("type")
    with pytest.raises(JobError, match="steps is to be a list of tables, not 1"):
        of_texts({"steps": "1"}, "rest").tables("steps")
