"""Which formats a job can ask for, and what is refused before Spark starts."""

import json
import re
from pathlib import Path

import pytest

from ottla.pipeline.formats import read_format
from ottla.pipeline.settings import JobError, Settings
from tests.pipeline.frames import made


@pytest.mark.parametrize(
    ("name", "converter"),
    [
        ("json", "org.apache.kafka.connect.json.JsonConverter"),
        ("JsonConverter", "org.apache.kafka.connect.json.JsonConverter"),
        ("string", "org.apache.kafka.connect.storage.StringConverter"),
        ("org.apache.kafka.connect.storage.StringConverter", "org.apache.kafka.connect.storage.StringConverter"),
        ("bytes", "org.apache.kafka.connect.converters.ByteArrayConverter"),
        ("LongConverter", "org.apache.kafka.connect.converters.LongConverter"),
        (
            "org.apache.kafka.connect.converters.BooleanConverter",
            "org.apache.kafka.connect.converters.BooleanConverter",
        ),
    ],
)
def test_formats_have_short_names_and_those_of_connect_s_converters(name: str, converter: str) -> None:
    assert made(type=name).converter == converter
    assert made(type="avro", schema="string").converter == "io.confluent.connect.avro.AvroConverter"


def test_all_keys_of_connect_s_json_converter_are_known() -> None:
    made(
        type="JsonConverter",
        schemas_enable="false",
        schemas_cache_size="5",
        decimal_format="numeric",
        replace_null_with_default="false",
        schema="id BIGINT",
    )
    table = {"type": "json", "schemas": {"enable": True, "cache": {"size": 5}}, "schema": "id BIGINT"}
    read_format(Settings(table, "job.toml"))


def test_a_schema_may_be_in_a_file_beside_the_job_s(tmp_path: Path) -> None:
    (tmp_path / "order.avsc").write_text('{"type": "record", "name": "A", "fields": []}')
    settings = {"type": "avro", "schema": "order.avsc", "use.schema.id": 7}
    read_format(Settings(settings, str(tmp_path / "job.toml"))).check_writing()
    with pytest.raises(JobError, match=r"schema cannot be read: .*No such file"):
        read_format(Settings({"type": "json", "schema": "none.json"}, str(tmp_path / "job.toml")))


UNION = json.dumps(["int", "string"])


@pytest.mark.parametrize(
    ("values", "line"),
    [
        ({"type": "xml"}, "type is to be one of json, avro, string, bytes, org.apache"),
        ({}, "type is missing"),
        ({"type": "json", "schema": "id BIGINT,"}, "schema ends too early"),
        ({"type": "json", "schema": "{"}, "schema is no JSON: "),
        ({"type": "json", "shema": "id BIGINT"}, "shema is unknown; did you mean value.schema?"),
        ({"type": "json", "schemas_enabled": "true"}, "schemas.enabled is unknown; did you mean value.schemas.enable?"),
        ({"type": "json", "schemas_enable": "yes"}, "schemas.enable is to be true or false"),
        ({"type": "json", "decimal_format": "hex"}, "decimal.format is to be one of BASE64, NUMERIC"),
        ({"type": "string", "schema": "STRING"}, "schema is unknown"),
        ({"type": "string", "converter_encoding": "UTF-16"}, "converter.encoding is to be one of UTF-8"),
        ({"type": "avro"}, "schema is missing"),
        ({"type": "avro", "schema": "{}"}, "schema has a type that Avro does not know"),
        ({"type": "avro", "schema": "string", "use_schema_id": "-1"}, "use.schema.id is to be at least 0"),
        ({"type": "AvroConverter", "schema": "long", "schema_registry_url": "x"}, "schema.registry.url is unknown"),
    ],
)
def test_what_is_wrong_with_a_format_is_said_before_spark_starts(values: dict[str, object], line: str) -> None:
    with pytest.raises(JobError, match="^" + re.escape(f"job.toml: value.{line}")):
        made(**values)


def test_what_cannot_be_read_or_written_without_more_is_said_before_spark_starts() -> None:
    for name in ("json", "JsonConverter"):
        with pytest.raises(JobError, match=r"value\.schema is missing"):
            made(type=name).check_reading()
        made(type=name, schema="string").check_reading()
    framed = made(type="AvroConverter", schema="string")
    for check in (framed.check_reading, framed.check_writing):
        with pytest.raises(JobError, match=r"value\.use\.schema\.id is missing"):
            check()
    with pytest.raises(JobError, match=r"value\.schema has a union"):
        made(type="avro", schema=UNION).check_writing()
