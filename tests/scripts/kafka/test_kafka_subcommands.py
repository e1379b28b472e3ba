"""Command lines with sub-commands are parsed and refused like by argparse4j.

The lines are those of Kafka's tools; `compat_tests/tools/imitation` compares whole tools with them.
"""

import io
import re
from typing import Any

import pytest

from ottla.scripts.kafka.face import Face, ToolExit
from ottla.scripts.kafka.java.numbers import DOUBLE, INTEGER, LONG, SHORT
from ottla.scripts.kafka.subcommand_lines import nearest, wrapped
from ottla.scripts.kafka.subcommands import (
    HelpShown,
    OneOf,
    Parser,
    ParserError,
    argument,
    report,
    usage_lines,
)

WHERE = OneOf(is_required=True)
TOOL = Parser(
    "kafka-tool",
    "A tool.",
    [
        argument("-v", "--version", action="version", help="Print the version."),
        argument("--server", "-b", group=WHERE, help="Brokers."),
        argument("--controller", "-C", group=WHERE, help="Controllers."),
        argument("--command-config", metavar="FILE", help="A file."),
    ],
    [
        Parser("describe", "Describe.", [argument("--verbose", "-x", action="store_true", help="More.")]),
        Parser(
            "remove",
            "Remove.",
            [
                argument("--id", "-i", type=INTEGER, is_required=True, help="The id."),
                argument("--feature", action="append", help="A feature."),
                argument("--level", type=SHORT, choices=(0, 1), help="A level."),
                argument("--property", many="+", help="Properties."),
                argument("--dry-run", action="store_true", help="Do nothing."),
                argument("--delete-all", action="store_true", help="All."),
            ],
        ),
    ],
    version="4.3.1",
)
SERVER = ["--server", "s"]


def printed(words: list[str]) -> tuple[str, str]:
    out, err = io.StringIO(), io.StringIO()
    with pytest.raises(ParserError) as raised:
        TOOL.parse(words)
    report(Face(out=out, err=err), raised.value)
    return out.getvalue(), err.getvalue()


@pytest.mark.parametrize(
    ("words", "found"),
    [
        (["describe"], {"verbose": False}),
        (["desc", "--verb"], {"verbose": True}),
        (["describe", "-x"], {"verbose": True}),
        (["remove", "--id", "7"], {"id": 7, "feature": None, "dry_run": False}),
        (["remove", "-i7", "--feature", "a", "--feature=b"], {"id": 7, "feature": ["a", "b"]}),
        (["remove", "--id", "-7"], {"id": -7}),
        (["remove", "--id=+7", "--level", "1", "--dry-run"], {"level": 1, "dry_run": True}),
        (["remove", "--id", "7", "--property", "a=1", "b=2", "--dry-run"], {"property": ["a=1", "b=2"]}),
    ],
)
def test_values_are_found_under_the_names_of_their_options(words: list[str], found: dict[str, Any]) -> None:
    values = TOOL.parse([*SERVER, *words])
    assert {name: values[name] for name in found} == found
    assert (values["server"], values["controller"]) == ("s", None)
    assert values["command"] in TOOL.commands


@pytest.mark.parametrize(
    ("words", "message"),
    [
        ([], "too few arguments"),
        (SERVER, "too few arguments"),
        (["describe"], "one of the arguments --server/-b --controller/-C is required"),
        ([*SERVER, "-C", "c", "describe"], "argument --controller/-C: not allowed with argument --server/-b"),
        ([*SERVER, "remove"], "argument --id/-i is required"),
        ([*SERVER, "remove", "--id"], "argument --id/-i: expected one argument"),
        (
            [*SERVER, "remove", "--id", "x"],
            "argument --id/-i: could not convert 'x' to Integer (For input string: \"x\")",
        ),
        ([*SERVER, "remove", "--id", "1", "--level", "2"], "argument --level: invalid choice: '2' (choose from {0,1})"),
        ([*SERVER, "remove", "--id", "1", "--property"], "argument --property: expected 1 argument(s)"),
        ([*SERVER, "remove", "--id", "1", "--dry-run=yes"], "argument --dry-run: ignore implicit argument 'yes'"),
        ([*SERVER, "remove", "--id", "1", "--d"], "ambiguous option: --d could match --delete-all, --dry-run"),
        ([*SERVER, "frob"], "invalid choice: 'frob' (choose from 'describe', 'remove')"),
        ([*SERVER, ""], "invalid choice: '' (choose from 'describe', 'remove')"),
        ([*SERVER, "--frob", "describe"], "unrecognized arguments: '--frob'"),
        ([*SERVER, "describe", "more", "words"], "unrecognized arguments: 'more words'"),
        ([*SERVER, "describe", "-xq"], "unrecognized arguments: '-xq'"),
        ([*SERVER, "remove", "--", "--id", "1"], "unrecognized arguments: '--id 1'"),
    ],
)
def test_an_invalid_command_line_is_refused_in_the_parsers_words(words: list[str], message: str) -> None:
    with pytest.raises(ParserError) as raised:
        TOOL.parse(words)
    assert raised.value.message == message


def test_an_error_follows_the_usage_of_the_sub_command_that_found_it() -> None:
    assert printed([*SERVER, "describe", "--verbosse"]) == (
        "",
        "usage: kafka-tool (--server SERVER | --controller CONTROLLER) describe [-h]\n"
        "                  [--verbose]\n"
        "kafka-tool: error: unrecognized arguments: '--verbosse'\n"
        "\n"
        "Did you mean:\n"
        "\t--verbose\n",
    )


def test_a_usage_line_shows_required_options_without_brackets_and_groups_last() -> None:
    assert usage_lines(TOOL) == [
        "usage: kafka-tool [-h] [-v] [--command-config FILE] (--server SERVER |",
        "                  --controller CONTROLLER) {describe,remove} ...",
    ]


def test_a_long_error_is_wrapped_at_75_columns() -> None:
    text = "kafka-cluster: error: invalid choice: '' (choose from 'cluster-id', 'unregister', 'list-endpoints')\n"
    assert wrapped(text) == (
        "kafka-cluster:  error:  invalid  choice:   ''  (choose  from  'cluster-id',\n'unregister', 'list-endpoints')\n"
    )


def test_names_that_are_far_from_a_word_are_not_suggested() -> None:
    assert nearest("clusterid", ["cluster-id", "unregister"]) == ["cluster-id"]
    assert nearest("boot", ["--bootstrap-server", "--id"]) == ["--bootstrap-server"]
    assert nearest("frobnicate", ["--id"]) == []
    assert nearest("", ["b", "a"]) == ["a", "b"]


def test_help_and_the_version_are_printed_on_stdout() -> None:
    out, err = printed(["remove", "--help"])
    assert (out.splitlines()[0].split()[:2], err) == (["usage:", "kafka-tool"], "")
    assert "--property PROPERTY [PROPERTY ...]" in out
    out, _ = printed(["-h"])
    assert "  {describe,remove}" in out
    with pytest.raises(HelpShown) as shown:
        TOOL.parse(["-v"])
    text = io.StringIO()
    with pytest.raises(ToolExit) as end:
        report(Face(out=text), shown.value)
    assert (end.value.code, text.getvalue()) == (0, "4.3.1\n")


def test_a_tool_that_leaves_errors_to_the_parser_ends_with_1_also_after_help() -> None:
    for words in (["--help"], ["frob"]):
        with pytest.raises(ToolExit) as end:
            TOOL.parse_or_exit(words, Face(out=io.StringIO(), err=io.StringIO()))
        assert end.value.code == 1


@pytest.mark.parametrize(
    ("kind", "text", "reason"),
    [
        (INTEGER, "2147483648", 'For input string: "2147483648"'),
        (INTEGER, "1_0", 'For input string: "1_0"'),
        (INTEGER, "", 'For input string: ""'),
        (SHORT, "32768", 'Value out of range. Value:"32768" Radix:10'),
        (LONG, "9223372036854775808", 'For input string: "9223372036854775808"'),
        (DOUBLE, "x", 'For input string: "x"'),
        (DOUBLE, " ", "empty String"),
    ],
)
def test_an_invalid_number_in_java_is_refused_in_javas_words(kind: Any, text: str, reason: str) -> None:
    with pytest.raises(ValueError, match=re.escape(reason)):
        kind.convert(text)


def test_numbers_have_the_range_of_java() -> None:
    assert (SHORT.convert("-32768"), INTEGER.convert("2147483647"), LONG.convert("+5")) == (-32768, 2147483647, 5)
    assert DOUBLE.convert("-1.5e3") == -1500.0
