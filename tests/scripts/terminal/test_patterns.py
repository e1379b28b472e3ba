"""Choosing names by globs and regular expressions."""

import click
import pytest

from ottla.scripts.terminal.patterns import chosen, is_pattern

NAMES = ["orders-eu", "orders-us", "Orders", "payments", "a.b"]


@pytest.mark.parametrize(
    ("patterns", "regex", "expected"),
    [
        ([], False, ["Orders", "a.b", "orders-eu", "orders-us", "payments"]),
        (["orders-*"], False, ["orders-eu", "orders-us"]),
        (["payments", "a.b"], False, ["a.b", "payments"]),
        (["a?b"], False, ["a.b"]),
        (["[op]*"], False, ["orders-eu", "orders-us", "payments"]),
        (["orders-(eu|us)"], True, ["orders-eu", "orders-us"]),
        (["orders"], True, []),
        (["a.b"], True, ["a.b"]),
    ],
)
def test_names_are_chosen(patterns: list[str], regex: bool, expected: list[str]) -> None:
    assert chosen(NAMES, patterns, regex=regex) == expected


def test_an_invalid_regular_expression_is_wrong_usage() -> None:
    with pytest.raises(click.UsageError, match="expression is invalid"):
        chosen(NAMES, ["("], regex=True)


@pytest.mark.parametrize(("text", "expected"), [("orders", False), ("orders-*", True), ("a?", True), ("[ab]", True)])
def test_a_glob_is_distinguished_from_a_name(text: str, expected: bool) -> None:
    assert is_pattern(text) is expected
