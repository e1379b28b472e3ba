"""Lines of CSV, as far as their quotes go: what is no text for Spark's parser to guess about."""

import re

import pytest

from ottla.pipeline.formats.csv_format import CsvFormat, open_quote, well_quoted
from ottla.pipeline.settings import JobError, Settings


def is_well_quoted(line: str, delimiter: str = ",", quote: str = '"', escape: str = "\\") -> bool:
    """As the columns of Spark find it, whose regular expressions Python has too."""
    rest = re.sub(well_quoted(delimiter, quote, escape)[0], r"\1", line)
    return re.search(open_quote(delimiter, quote), rest) is None


@pytest.mark.parametrize(
    "line", ["", ",", "1,x", '"a"', '1,"a,b",2', '"a", "b" ,"c"', '1,"say \\"x\\""', '1,5" pipe', '"",""', '1,"\\\\"']
)
def test_quotes_that_end_where_their_fields_end_are_right(line: str) -> None:
    assert is_well_quoted(line)


@pytest.mark.parametrize("line", ['1,"a', '"', '1,"x""y"', '1,"a"b,2', '1, "a', '1,"a\\"', '"a,b'])
def test_quotes_that_are_left_open_or_go_on_behind_their_end_are_wrong(line: str) -> None:
    assert not is_well_quoted(line)


def test_delimiters_quotes_and_escapes_are_those_of_the_job() -> None:
    assert is_well_quoted('1,"x""y"', escape='"')
    assert not is_well_quoted('1,"x"""y"', escape='"')
    assert is_well_quoted("1|'a|b'", "|", "'")
    assert not is_well_quoted("1|'a|b", "|", "'")
    assert is_well_quoted("'a'^-^'b'", "^-^", "'")
    assert is_well_quoted('1\t"a\tb"', "\t")
    assert is_well_quoted('"a\\","b"', escape="")


def test_a_schema_of_csv_is_checked_before_spark_starts() -> None:
    for schema, line in (
        ("id BIGNT", "has a type that records cannot have: bignt"),
        ("ARRAY<INT>", "is to have columns"),
    ):
        with pytest.raises(JobError, match=rf"^job\.toml: source\.schema {line}$"):
            CsvFormat(Settings({"schema": schema}, "job.toml", "source."), {})
