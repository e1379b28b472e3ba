"""Topics in a file: parsing, refusals, and the plan of changes."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ottla.client.admin.desired_topics import (
    Action,
    Change,
    DesiredError,
    Topic,
    plan,
    read_topics,
    write_topics,
)

FILE = """
[topics.orders]
partitions = 6
replication_factor = 3

[topics.orders.configs]
"retention.ms" = 604800000
"cleanup.policy" = ["compact", "delete"]
preallocate = true

[topics."a.b"]
"""
ORDERS = Topic(6, 3, {"retention.ms": "604800000", "cleanup.policy": "compact,delete", "preallocate": "true"})


def test_a_file_describes_topics() -> None:
    assert read_topics(FILE) == {"orders": ORDERS, "a.b": Topic(None, None, {})}


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("[topics", "at the end of a table declaration"),
        ("[brokers]", "brokers"),
        ("topics = 3", "topics: it is a table"),
        ("[topics]\norders = 3", "topics.orders: it is a table"),
        ("[topics.orders]\npartition = 3", r"topics\.orders\.partition: a topic has configs, partitions"),
        ("[topics.orders]\npartitions = 0", "a number from 1 on"),
        ("[topics.orders]\npartitions = true", "a number from 1 on"),
        ("[topics.orders]\nconfigs = 3", "configs: it is a table"),
        ("[topics.orders.configs]\nretention.ms = 3", "quote a key with dots"),
    ],
)
def test_the_error_of_an_invalid_file_names_the_place(text: str, reason: str) -> None:
    with pytest.raises(DesiredError, match=reason):
        read_topics(text)


def test_a_missing_topic_is_created() -> None:
    assert plan({"orders": ORDERS}, {}) == [Change("orders", Action.CREATE, after=6)]


def test_a_topic_that_is_as_wanted_is_left_unchanged() -> None:
    assert plan({"orders": ORDERS}, {"orders": ORDERS}, prune=True) == []


def test_only_what_differs_is_changed() -> None:
    actual = Topic(3, 3, {"retention.ms": "1", "cleanup.policy": "compact,delete", "preallocate": "true"})
    assert plan({"orders": ORDERS}, {"orders": actual}) == [
        Change("orders", Action.ADD_PARTITIONS, before=3, after=6),
        Change("orders", Action.SET_CONFIG, "retention.ms", "1", "604800000"),
    ]


def test_values_that_a_file_does_not_name_stay_unchanged() -> None:
    assert plan({"orders": Topic(None, None, {})}, {"orders": ORDERS}) == []


def test_nothing_is_removed_without_prune() -> None:
    wanted, actual = {"orders": Topic(6, 3, {})}, {"orders": ORDERS, "other": ORDERS}
    assert plan(wanted, actual) == []
    assert plan(wanted, actual, prune=True) == [
        *(Change("orders", Action.UNSET_CONFIG, key, ORDERS.configs[key]) for key in sorted(ORDERS.configs)),
        Change("other", Action.DELETE, before=6),
    ]


COUNTS = st.integers(1, 9)
NAMES = st.text("ab.-_", min_size=1, max_size=3)
TOPICS = st.dictionaries(
    NAMES, st.builds(Topic, COUNTS, COUNTS, st.dictionaries(NAMES, st.text(max_size=4), max_size=3)), max_size=4
)


@given(TOPICS)
def test_a_file_that_is_written_is_read_again(topics: dict[str, Topic]) -> None:
    assert read_topics(write_topics(topics)) == topics


@given(TOPICS, TOPICS)
def test_after_all_changes_topics_are_as_wanted(wanted: dict[str, Topic], actual: dict[str, Topic]) -> None:
    left = dict(actual)
    for change in plan(wanted, actual, prune=True):
        topic = left.get(change.topic)
        match change:
            case Change(name, Action.CREATE):
                left[name] = wanted[name]
            case Change(name, Action.DELETE):
                del left[name]
            case Change(name, Action.ADD_PARTITIONS, None, _, int(count)) if topic:
                left[name] = topic._replace(partitions=count)
            case Change(name, Action.CHANGE_REPLICAS, None, _, int(count)) if topic:
                left[name] = topic._replace(replication_factor=count)
            case Change(name, Action.SET_CONFIG, str(key), _, str(value)) if topic:
                left[name] = topic._replace(configs={**topic.configs, key: value})
            case Change(name, Action.UNSET_CONFIG, str(key)) if topic:
                left[name] = topic._replace(configs={k: v for k, v in topic.configs.items() if k != key})
    assert left == wanted
