"""Rows in all formats, for people and for scripts, with null distinct from empty."""

import csv
import io
import json
from typing import Any

import pytest
from ruamel.yaml import YAML

from ottla.scripts.terminal.output import ERROR, FORMATS, Output, default_format, title
from ottla.wire.errors import ErrorCode, KafkaError

ROWS: list[dict[str, Any]] = [
    {"topic": "orders", "partitions": 3, "replicas": [1, 2], "share": 0.5, "internal": False, "configs": {"a": "b"}},
    {"topic": "", "partitions": None, "replicas": [], "share": None, "internal": True, "configs": {}},
]


def printed(form: str, rows: list[dict[str, Any]] = ROWS, *, is_dry_run: bool | None = None) -> str:
    stream = io.StringIO()
    output = Output("topics list", form, stream)
    output.is_dry_run = is_dry_run
    output.begin(*rows[0])
    output.rows(rows)
    output.end()
    return stream.getvalue()


def test_a_table_has_headings_and_aligned_columns() -> None:
    assert printed("table").splitlines() == [
        "TOPIC   PARTITIONS  REPLICAS  SHARE  INTERNAL  CONFIGS",
        "orders           3  1,2         0.5  false     a=b",
        "                 -                -  true",
    ]


def test_a_table_without_rows_prints_nothing() -> None:
    stream = io.StringIO()
    output = Output("topics list", "table", stream)
    output.begin("topic")
    output.end()
    assert stream.getvalue() == ""


def test_tab_separated_rows_have_no_headings_and_distinguish_unknown_from_empty() -> None:
    assert printed("tsv") == "orders\t3\t1,2\t0.5\tfalse\ta=b\n\t-\t\t-\ttrue\t\n"


def test_a_value_cannot_add_cells_or_rows() -> None:
    assert printed("tsv", [{"topic": "a\tb\nc\\d\r"}]) == "a\\tb\\nc\\\\d\\r\n"


def test_a_value_has_no_control_characters_on_a_terminal() -> None:
    assert "\x1b" not in printed("table", [{"topic": "\x1b[31mred"}])


def test_json_is_one_document_with_a_version() -> None:
    assert json.loads(printed("json")) == {"schema": 1, "command": "topics list", "items": ROWS, "error": None}


def test_json_has_a_flag_for_a_dry_run() -> None:
    assert json.loads(printed("json", is_dry_run=True))["dry_run"] is True
    assert "dry_run" not in json.loads(printed("json"))


def test_ndjson_is_a_row_a_line() -> None:
    assert [json.loads(line) for line in printed("ndjson").splitlines()] == ROWS


def test_csv_has_headings() -> None:
    rows = list(csv.DictReader(io.StringIO(printed("csv"))))
    assert [row["topic"] for row in rows] == ["orders", ""]
    assert rows[1]["partitions"] == ""


def test_yaml_is_read_as_the_same_document_as_json() -> None:
    assert YAML(typ="safe").load(printed("yaml")) == json.loads(printed("json"))


def test_yaml_nests_lists_and_objects() -> None:
    assert printed("yaml", [{"topic": "a: b", "members": [{"id": 1, "hosts": ["x"]}], "none": []}]) == (
        "schema: 1\n"
        'command: "topics list"\n'
        "items:\n"
        '  - topic: "a: b"\n'
        "    members:\n"
        "      - id: 1\n"
        "        hosts:\n"
        '          - "x"\n'
        "    none: []\n"
        "error: null\n"
    )


def with_failed_item(form: str) -> tuple[str, bool]:
    stream = io.StringIO()
    output = Output("topics delete", form, stream)
    output.begin("topic", *ERROR)
    output.item(None, topic="orders")
    output.item(KafkaError(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, "no such topic"), topic="gone")
    output.end()
    return stream.getvalue(), output.has_failed


@pytest.mark.parametrize("form", FORMATS)
def test_a_failed_item_is_a_row_and_a_failure(form: str) -> None:
    text, has_failed = with_failed_item(form)
    assert has_failed
    assert "UNKNOWN_TOPIC_OR_PARTITION" in text
    assert "no such topic" in text


def test_a_table_shows_errors_only_after_a_failure() -> None:
    stream = io.StringIO()
    output = Output("topics delete", "table", stream)
    output.begin("topic", *ERROR)
    output.item(None, topic="orders")
    output.end()
    assert stream.getvalue() == "TOPIC\norders\n"


@pytest.mark.parametrize("form", ["json", "yaml", "ndjson"])
def test_a_command_that_fails_prints_one_document(form: str) -> None:
    stream = io.StringIO()
    output = Output("topics list", form, stream)
    output.fail("ConnectionFailed", "localhost:1: refused", "Start a broker.")
    assert output.has_failed
    assert "ConnectionFailed" in stream.getvalue()
    if form == "json":
        error = {"code": "ConnectionFailed", "message": "localhost:1: refused", "hint": "Start a broker."}
        assert json.loads(stream.getvalue())["error"] == error


@pytest.mark.parametrize("form", ["table", "tsv", "csv"])
def test_a_command_that_fails_prints_no_text_on_stdout(form: str) -> None:
    stream = io.StringIO()
    Output("topics list", form, stream).fail("ConnectionFailed", "refused", "")
    assert stream.getvalue() == ""


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


def test_the_default_format_depends_on_a_terminal() -> None:
    assert default_format(Terminal()) == "table"
    assert default_format(io.StringIO()) == "tsv"


def test_headings_are_bold_on_a_terminal_unless_colors_are_off(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TERM", "xterm")
    for no_color, expected in (("", True), ("1", False)):
        monkeypatch.setenv("NO_COLOR", no_color)
        stream = Terminal()
        output = Output("topics list", "table", stream)
        output.begin("topic")
        output.row(topic="orders")
        output.end()
        assert ("\x1b[1m" in stream.getvalue()) is expected


def test_a_heading_is_the_name_of_its_column() -> None:
    assert title("log_end_offset") == "LOG-END-OFFSET"
