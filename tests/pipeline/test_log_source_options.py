"""What can be asked of the source that reads logs, and what is said of what cannot."""

import re
from pathlib import Path

import pytest

from ottla.pipeline.log_source_options import EARLIEST, LATEST, offset_json, parse_offset_json, parse_options
from ottla.pipeline.settings import JobError
from ottla.wire.types import TopicPartition

HERE = {"path": "data", "subscribe": "a"}


def test_what_is_not_said_has_the_defaults_of_sparks_source_and_reads_committed_records() -> None:
    found = parse_options(HERE)
    assert (found.starting, found.ending, found.max_offsets_per_trigger) == (EARLIEST, LATEST, None)
    assert (found.read_committed, found.fail_on_data_loss, found.is_permissive) == (True, True, False)
    assert parse_options(HERE, streaming=True).starting == LATEST


def test_names_are_known_in_any_case_as_spark_hands_them_on() -> None:
    found = parse_options(
        {"PATH": "a, b", "subscribepattern": "x", "startingoffsets": "Earliest", "MODE": "permissive"}
    )
    assert found.directories == (Path("a"), Path("b"))
    assert found.is_permissive


def test_a_pattern_is_of_whole_names_and_finds_no_internal_topic() -> None:
    wants = parse_options({"path": "a", "subscribePattern": "_*a.*"}).subscription.wants
    named = ["a", "ab", "ba", "__a", "__consumer_offsets"]
    assert [name for name in named if wants(TopicPartition(name, 0))] == ["a", "ab", "__a"]
    assert parse_options({"path": "a", "subscribe": "__consumer_offsets"}).subscription.wants(
        TopicPartition("__consumer_offsets", 7)
    )


def test_partitions_are_assigned_one_by_one() -> None:
    subscription = parse_options({"path": "a", "assign": '{"a": [0, 2], "b": [1]}'}).subscription
    wanted = [TopicPartition("a", 0), TopicPartition("a", 2), TopicPartition("b", 1)]
    assert [subscription.wants(each) for each in wanted] == [True] * 3
    assert not subscription.wants(TopicPartition("a", 1))
    assert subscription.missing(wanted[:1]) == ["a-2", "b-1"]


def test_offsets_are_written_in_one_order_and_read_again() -> None:
    offsets = {TopicPartition("b", 10): 4, TopicPartition("b", 9): -1, TopicPartition("a", 0): 0}
    document = offset_json(offsets)
    assert str(document) == "{'a': {'0': 0}, 'b': {'9': -1, '10': 4}}"
    assert parse_offset_json(document) == offsets


@pytest.mark.parametrize(
    ("options", "line"),
    [
        ({"subscribe": "a"}, "ottla-log: path is missing"),
        ({"path": "d"}, "ottla-log: one of subscribe, subscribePattern and assign is to be there, and not 0"),
        (HERE | {"assign": "{}"}, "ottla-log: one of subscribe, subscribePattern and assign is to be there, and not 2"),
        (HERE | {"subscribe": " ,"}, "ottla-log: subscribe names no topic"),
        ({"path": "d", "subscribePattern": "("}, "ottla-log: subscribePattern is no pattern: missing ), unterminated"),
        ({"path": "d", "assign": "[1]"}, 'ottla-log: assign is to be like {"topic": [0, 1]}'),
        ({"path": "d", "assign": "{}"}, "ottla-log: assign names no partition"),
        (HERE | {"startingOffsets": "first"}, 'startingOffsets is to be earliest, latest or like {"topic": {"0": 5}}'),
        (HERE | {"startingOffsets": '{"a": {"0": true}}'}, "no offset for a-0"),
        (HERE | {"endingOffsets": '{"a": 5}'}, "no object of partitions for a"),
        (HERE | {"startingOffsets": "latest"}, "startingOffsets is latest, where nothing is to be read yet"),
        (HERE | {"endingOffsets": '{"a": {"0": -2}}'}, "endingOffsets is earliest, where nothing was read yet"),
        (HERE | {"maxOffsetsPerTrigger": "0"}, "maxOffsetsPerTrigger is to be at least 1, not 0"),
        (HERE | {"subscribes": "a"}, "ottla-log: subscribes is unknown; did you mean subscribe?"),
        (HERE | {"isolation": "dirty"}, "isolation is to be one of read_committed, read_uncommitted, not 'dirty'"),
    ],
)
def test_what_is_wrong_is_said_in_one_line(options: dict[str, str], line: str) -> None:
    with pytest.raises(JobError, match=re.escape(line)):
        parse_options(options)


def test_a_stream_has_no_end() -> None:
    with pytest.raises(JobError, match="endingOffsets is not for streams"):
        parse_options(HERE | {"endingOffsets": "latest"}, streaming=True)
