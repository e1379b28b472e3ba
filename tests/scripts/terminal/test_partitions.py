"""Partitions on the command line."""

import click
import pytest

from ottla.scripts.terminal.partitions import Chosen, read_brokers, read_partitions


def test_a_topic_stands_for_all_of_its_partitions() -> None:
    assert read_partitions(["orders"]) == [Chosen("orders", None)]


def test_numbers_and_ranges_follow_a_colon() -> None:
    assert read_partitions(["orders:0", "a.b:0,3-5"]) == [
        Chosen("orders", frozenset({0})),
        Chosen("a.b", frozenset({0, 3, 4, 5})),
    ]


@pytest.mark.parametrize("text", ["orders:", "orders:x", "orders:1-", "orders:1,,2", ":1", ""])
def test_an_invalid_partition_is_refused(text: str) -> None:
    with pytest.raises(click.UsageError, match="partitions are"):
        read_partitions([text])


def test_brokers_are_numbers_with_commas_between_them() -> None:
    assert read_brokers("3,1,3") == [1, 3]
    with pytest.raises(click.UsageError, match="brokers are numbers"):
        read_brokers("1,x")
