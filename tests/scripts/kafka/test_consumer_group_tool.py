"""The parts of the imitated kafka-consumer-groups that need no broker."""

import io
from typing import NamedTuple

import pytest

from ottla.client.admin.groups.committed_offsets import Committed
from ottla.client.admin.groups.descriptions import GroupDescription, GroupMember
from ottla.client.cluster import Node
from ottla.scripts.kafka.face import Face, JavaError, Release, ToolExit
from ottla.scripts.kafka.groups.consumer_flags import regex_verdict, states
from ottla.scripts.kafka.groups.offset_resets import in_hash_order, parse_topic_with_partitions
from ottla.scripts.kafka.groups.reset_plans import exported, plan_of
from ottla.scripts.kafka.groups.tables import offset_rows, print_members, print_offsets, print_state
from ottla.scripts.kafka.java.times import date_time_ms, duration_ms
from ottla.scripts.kafka.tools import consumer_groups
from ottla.wire.types import TopicPartition

ONE, TWO = TopicPartition("t1", 0), TopicPartition("t1", 1)


class Ended(NamedTuple):
    code: int
    out: str
    err: str


def tool(*arguments: str, release: Release = Release.V4_3) -> Ended:
    out, err = io.StringIO(), io.StringIO()
    try:
        code = consumer_groups.main(arguments, Face(release, out, err))
    except ToolExit as end:
        code = end.code
    return Ended(code, out.getvalue(), err.getvalue())


def printed(release: Release = Release.V4_3) -> tuple[Face, io.StringIO]:
    out = io.StringIO()
    return Face(release, out, io.StringIO()), out


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("2023-11-14T22:13:22.000", 1_700_000_002_000),
        ("2023-11-14T22:13:22.005Z", 1_700_000_002_005),
        ("2023-11-15T00:13:22.000+02:00", 1_700_000_002_000),
        ("2023-11-14T20:13:22.000-02", 1_700_000_002_000),
    ],
)
def test_times_are_parsed_like_in_java(text: str, expected: int) -> None:
    assert date_time_ms(text) == expected


@pytest.mark.parametrize("text", ["yesterday", "2023-11-14", "2023-11-31T00:00:00.000", "2023-11-14T22:13Z"])
def test_an_invalid_time_in_java_is_refused(text: str) -> None:
    with pytest.raises(JavaError) as refused:
        date_time_ms(text)
    assert refused.value.java_class == "java.text.ParseException"


def test_durations_are_parsed_like_in_java() -> None:
    texts = ["PT1H30M", "P1DT1S", "-PT1S", "PT-1.5S", "pt0.25s"]
    assert [duration_ms(text) for text in texts] == [5_400_000, 86_401_000, -1000, -1500, 250]
    for text in ("soon", "PT", "P", "1H"):
        with pytest.raises(JavaError, match="Text cannot be parsed to a Duration"):
            duration_ms(text)


def test_a_plan_is_of_the_one_group_or_names_its_groups() -> None:
    plan, unfit = plan_of('"t1",0,2\nt1,1,7\n', ["mine"])
    assert (plan, unfit) == ({"mine": {ONE: 2, TWO: 7}}, None)
    plan, unfit = plan_of("a,t1,0,2\nb,t1,1,7", ["a", "b"])
    assert plan == {"a": {ONE: 2}, "b": {TWO: 7}}
    assert unfit is not None
    assert 'from String "t1": not a valid `int` value' in str(unfit)
    assert "line: 1, column: 3" in str(unfit)


def test_missing_values_of_a_plan_are_empty_and_extra_ones_are_refused() -> None:
    assert plan_of("filled;0;2", ["mine"])[0] == {"mine": {TopicPartition("filled;0;2", 0): 0}}
    with pytest.raises(JavaError, match=r"Too many entries: expected at most 4 \(value #4 \(1 chars\) \"9\"\)"):
        plan_of("a,t1,0,2,9", ["a", "b"])


def test_a_plan_is_exported_with_quotes_around_special_texts() -> None:
    long = "a-name-of-more-than-24-letters"
    plan = {'my "group"': {ONE: 2, TopicPartition(long, 3): 4}}
    assert sorted(exported(plan, with_groups=True).splitlines()) == [
        f'"my ""group""","{long}",3,4',
        '"my ""group""",t1,0,2',
    ]
    assert "t1,0,2\n" in exported(plan, with_groups=False)


def test_partitions_have_the_order_of_a_java_map() -> None:
    assert [each.partition for each in in_hash_order(TopicPartition("t1", n) for n in range(4))] == [3, 2, 1, 0]


def test_partitions_of_a_topic_are_read() -> None:
    assert parse_topic_with_partitions("t1:0,1") == [ONE, TWO]
    for text in ("t1:x", "t1:0:1", "t1:"):
        with pytest.raises(JavaError):
            parse_topic_with_partitions(text)


@pytest.mark.parametrize(
    ("text", "reason"),
    [("a.*|(?<x>b)", None), ("a[", "missing closing ]"), ("(?=a)", "invalid or unsupported Perl syntax")],
)
def test_expressions_are_validated_like_by_brokers(text: str, reason: str | None) -> None:
    said = "valid" if reason is None else f"invalid: {reason}"
    ended = tool("--validate-regex", text)
    assert ended == (0, f"The regular expression `{text}` is {said}.\n", "")
    assert regex_verdict(text) in ended.out


def test_states_are_read_in_any_case() -> None:
    assert states("stable, EMPTY,preparingrebalance") == ["Stable", "Empty", "PreparingRebalance"]
    with pytest.raises(JavaError, match="Invalid state list 'bogus'"):
        states("bogus")


def test_a_reset_without_execute_is_a_dry_run_with_a_warning() -> None:
    ended = tool("--bootstrap-server", "localhost:1", "--reset-offsets", "--to-earliest")
    assert ended.code == 1
    assert ended.err.startswith("WARN: No action will be performed as the --execute option is missing. In version 5.0")
    older = tool("--bootstrap-server", "localhost:1", "--reset-offsets", "--to-earliest", release=Release.V3_9)
    assert "is missing.In a future major release" in older.err


GROUP = GroupDescription(
    "g",
    "Consumer",
    "Stable",
    "consumer",
    "uniform",
    Node(1, "localhost", 9092),
    [
        GroupMember("m-1", None, "c1", "/127.0.0.1", [TWO], [ONE, TWO], 4, True),
        GroupMember("m-2", None, "c2", "/127.0.0.1", [], [], 4, False),
    ],
    5,
    6,
)


def test_offsets_are_printed_with_and_without_leader_epochs() -> None:
    committed = {ONE: Committed(3, 7), TWO: Committed(1)}
    face, out = printed()
    rows = offset_rows(face, GROUP, committed, {ONE: 5})
    print_offsets(face, GROUP, rows, is_verbose=True)
    title, first, second = out.getvalue().strip().splitlines()
    assert title.split()[3:5] == ["LEADER-EPOCH", "CURRENT-OFFSET"]
    assert first.split() == ["g", "t1", "1", "-", "1", "-", "-", "m-1", "/127.0.0.1", "c1"]
    assert second.split() == ["g", "t1", "0", "7", "3", "5", "2", "-", "-", "-"]
    face, out = printed(Release.V3_9)
    print_offsets(face, GROUP, rows, is_verbose=True)
    assert "LEADER-EPOCH" not in out.getvalue()
    assert not out.getvalue().endswith("\n")


def test_members_of_both_protocols_have_their_own_columns() -> None:
    face, out = printed()
    print_members(face, GROUP, is_verbose=True)
    title, first, second = out.getvalue().strip().splitlines()
    assert title.split()[-5:] == [
        *("CURRENT-EPOCH", "CURRENT-ASSIGNMENT", "TARGET-EPOCH", "TARGET-ASSIGNMENT", "UPGRADED"),
    ]
    assert first.split()[-5:] == ["4", "t1:1", "6", "t1:0,1", "true"]
    assert second.split()[-5:] == ["4", "-", "6", "-", "false"]


def test_the_verbose_state_has_epochs() -> None:
    face, out = printed()
    print_state(face, GROUP, is_verbose=True)
    assert out.getvalue().split("\n")[2].split() == [
        *("g", "localhost:9092", "(1)", "uniform", "Stable", "5", "6", "2"),
    ]
