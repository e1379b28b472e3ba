"""Scenarios of OffsetCommit, OffsetFetch, OffsetDelete, DescribeGroups, ListGroups and DeleteGroups."""

import functools
from collections.abc import Sequence
from typing import Any

from compat_tests.differential.both import Both, PerSide
from compat_tests.differential.scenarios import GROUP_SCENARIOS, scenario
from compat_tests.differential.scenarios.groups import (
    Member,
    described,
    gone,
    group_name,
    protocols,
    stable,
    subscription,
    wait_for,
)

scenario = functools.partial(scenario, among=GROUP_SCENARIOS)

NO_MEMBER: dict[str, Any] = {
    "generation_id_or_member_epoch": -1,
    "member_id": "",
    "group_instance_id": None,
    "retention_time_ms": -1,
}


def committed(topic: str, offset: int, partition: int = 0, **fields: Any) -> dict[str, Any]:
    """Return one partition of a topic for OffsetCommit."""
    one = {"partition_index": partition, "committed_offset": offset, "committed_metadata": "so far"}
    return {"name": topic, "partitions": [{**one, **fields}]}


def commit(both: Both, group: str, *topics: dict[str, Any], **fields: Any) -> PerSide:
    """Commit offsets; without other fields not as a member."""
    partitions: dict[str, list[dict[str, Any]]] = {}
    for each in topics:
        partitions.setdefault(each["name"], []).extend(each["partitions"])
    named = [{"name": name, "partitions": each} for name, each in partitions.items()]
    return both.ask("OffsetCommit", **{**NO_MEMBER, "group_id": group, "topics": named, **fields})


def fetch(both: Both, group: str, *topics: tuple[str, list[int]], **fields: Any) -> PerSide:
    """Fetch the committed offsets of these partitions, or of all."""
    named = [{"name": name, "partition_indexes": indexes} for name, indexes in topics] or None
    groups = [{"group_id": group, "topics": named}]
    # Before version 2 a request must name all partitions.
    single = named if named or both.version_of("OffsetFetch") >= 2 else []
    return both.ask("OffsetFetch", **{"group_id": group, "topics": single, "groups": groups, **fields})


def as_member(member: Member) -> dict[str, Any]:
    """Return the fields of OffsetCommit that identify a member."""
    return {
        "generation_id_or_member_epoch": member.generation,
        "member_id": member.id,
        "group_instance_id": member.instance,
    }


@scenario("OffsetCommit")
def commit_without_members(both: Both) -> None:
    topic, group = both.topic(partitions=2), group_name(both)
    commit(both, group, committed(topic, 5), committed(topic, 7, 1))
    fetch(both, group)
    described(both, group)
    # A commit may also go backwards.
    commit(both, group, committed(topic, 3, committed_metadata=None, committed_leader_epoch=0))
    commit(both, group, committed(topic, 4, 1, committed_metadata=""), retention_time_ms=60_000)
    fetch(both, group)
    commit(both, group)


@scenario("OffsetCommit")
def commit_what_is_named_twice(both: Both) -> None:
    topic, group = both.topic(partitions=2), group_name(both)
    for one, two in (
        (committed(topic, 8), committed(topic, 9)),
        (committed(topic, 6), committed(topic, 7, 1)),
        (committed(topic, 2), committed(topic, 1, committed_metadata="x" * 4097)),
        (committed(topic, 1, committed_metadata="x" * 4097), committed(topic, 3)),
    ):
        both.ask("OffsetCommit", group_id=group, topics=[one, two], **NO_MEMBER)
        fetch(both, group)


@scenario("OffsetCommit")
def commit_what_is_refused(both: Both) -> None:
    topic, other, group = both.topic(), both.topic(), group_name(both)
    for one in (
        committed("nobody-made-this", 1),
        committed("", 1),
        committed("bad name", 1),
        committed(topic, 1, partition=7),
        committed(topic, 1, partition=-1),
        committed(topic, 1, committed_metadata="x" * 4096),
        committed(topic, 1, committed_metadata="x" * 4097),
        committed(topic, -1),
        committed(topic, -5),
        committed("__consumer_offsets", 1),
    ):
        commit(both, group, one)
        commit(both, group, committed(other, 2), one)
    fetch(both, group)
    commit(both, "", committed(topic, 1))
    commit(both, "", committed("nobody-made-this", 1))
    commit(both, "")
    nobody = {"member_id": "nobody"}
    for name in (group, group_name(both)):
        for generation in (-1, 0, 1):
            commit(both, name, committed(topic, 9), generation_id_or_member_epoch=generation, **nobody)
        commit(both, name, committed(topic, 9), generation_id_or_member_epoch=1)
        commit(both, name, committed(topic, 9), group_instance_id="nobody")
        described(both, name)
    for generation in (0, 1):
        for fields in (nobody, {}):
            missing = group_name(both)
            commit(both, missing, committed(topic, 9), generation_id_or_member_epoch=generation, **fields)
            described(both, missing)
    fetch(both, group)


@scenario("OffsetCommit")
def commit_as_a_member(both: Both) -> None:
    topic = both.topic()
    one, two = stable(both, "one", "two")
    commit(both, one.group, committed(topic, 1), **as_member(one))
    for fields in (
        {"generation_id_or_member_epoch": 0},
        {"generation_id_or_member_epoch": 99},
        {"generation_id_or_member_epoch": -1},
        {"member_id": "nobody"},
        {"member_id": ""},
        {"group_instance_id": "nobody"},
        {"group_instance_id": "nobody", "member_id": "nobody"},
    ):
        commit(both, one.group, committed(topic, 2), **{**as_member(one), **fields})
    commit(both, one.group, committed(topic, 2))
    fetch(both, one.group)
    one.begin_join()
    wait_for(both, one.group, "PreparingRebalance", 2)
    commit(both, one.group, committed(topic, 3), **as_member(two))
    two.join()
    one.end_join()
    commit(both, one.group, committed(topic, 4), **as_member(two))
    fetch(both, one.group)
    one.sync(one, two)
    commit(both, one.group, committed(topic, 5), **as_member(two))
    gone(one, two)
    commit(both, one.group, committed(topic, 6), **as_member(two))
    commit(both, one.group, committed(topic, 7))
    fetch(both, one.group)


@scenario("OffsetCommit")
def commit_as_a_static_member(both: Both) -> None:
    topic = both.topic()
    one = Member(both, group_name(both), "one", instance="first")
    one.join()
    one.sync(one)
    commit(both, one.group, committed(topic, 1), **as_member(one))
    back = Member(both, one.group, "back", instance="first")
    back.join()
    commit(both, one.group, committed(topic, 2), **as_member(one))
    commit(both, one.group, committed(topic, 3), **{**as_member(one), "group_instance_id": None})
    commit(both, one.group, committed(topic, 4), **as_member(back))
    fetch(both, one.group)
    back.leave()


@scenario("OffsetFetch")
def fetch_offsets(both: Both) -> None:
    one, two, group = both.topic(partitions=3), both.topic(), group_name(both)
    commit(both, group, committed(one, 5, committed_leader_epoch=0), committed(one, 6, 2), committed(two, 7))
    for topics in (
        ((one, [0, 1, 2]), (two, [0])),
        ((one, [0, 7, -1]),),
        (("nobody-made-this", [0]), (two, [0])),
        (("bad name", [0]),),
        (),
    ):
        fetch(both, group, *topics)
        fetch(both, group, *topics, require_stable=True)
        fetch(both, group_name(both), *topics)
        fetch(both, "", *topics)
    fetch(both, group, topics=[], groups=[{"group_id": group, "topics": []}])


@scenario("OffsetFetch")
def fetch_offsets_that_are_named_twice_or_not_at_all(both: Both) -> None:
    topic, group = both.topic(), group_name(both)
    commit(both, group, committed(topic, 5))
    fetch(both, group, (topic, [0, 0]))
    fetch(both, group, (topic, []))
    fetch(both, group, (topic, [0]), (topic, [0]))


@scenario("OffsetFetch")
def fetch_offsets_of_several_groups(both: Both) -> None:
    topic, one, two = both.topic(), group_name(both), group_name(both)
    commit(both, one, committed(topic, 1))
    commit(both, two, committed(topic, 2))
    if both.version < 8:
        return  # which asks for one
    some = [{"name": topic, "partition_indexes": [0, 1]}]
    for groups in (
        [{"group_id": one, "topics": None}, {"group_id": two, "topics": some}],
        [{"group_id": one, "topics": some}, {"group_id": "", "topics": some}, {"group_id": "nobody", "topics": None}],
        [{"group_id": one, "topics": some, "member_id": "nobody", "member_epoch": 3}],
        [{"group_id": one, "topics": some}] * 2,
    ):  # not none at all, which Kafka 3.9 never answers
        both.ask("OffsetFetch", groups=groups)
        both.ask("OffsetFetch", groups=groups, require_stable=True)


@scenario("OffsetFetch")
def fetch_offsets_of_a_topic_that_is_gone(both: Both) -> None:
    topic, group = both.topic(), group_name(both)
    commit(both, group, committed(topic, 1))
    both.ask_without_comparing("DeleteTopics", 4, topic_names=[topic], timeout_ms=30_000)
    both.ask(
        "OffsetFetch",
        settle=True,
        group_id=group,
        topics=None if both.version >= 2 else [{"name": topic, "partition_indexes": [0]}],
        groups=[{"group_id": group, "topics": None}],
    )


@scenario("OffsetDelete")
def delete_offsets(both: Both) -> None:
    one, two, group = both.topic(partitions=3), both.topic(), group_name(both)

    def delete(topic: str, *partitions: int, of: str = group) -> None:
        wanted = {"name": topic, "partitions": [{"partition_index": index} for index in partitions]}
        both.ask("OffsetDelete", group_id=of, topics=[wanted])
        fetch(both, of)

    commit(both, group, committed(one, 5), committed(one, 6, 2), committed(two, 7))
    delete(one, 0)
    delete(one, 0, 1)
    delete(one, 7, -1, 2)
    delete("nobody-made-this", 0)
    delete("bad name", 0)
    delete(one)
    delete(one, 0, of=group_name(both))
    delete(one, 0, of="")
    both.ask("OffsetDelete", group_id=group, topics=[])
    described(both, group)
    # Without its last offset the group is deleted.
    delete(two, 0)
    described(both, group)
    delete(two, 0)


@scenario("OffsetDelete")
def delete_offsets_of_a_group_with_members(both: Both) -> None:
    subscribed, other = both.topic(), both.topic()
    member = Member(both, group_name(both), "one")
    member.protocols = protocols("range", metadata=subscription(subscribed))
    member.join()
    member.sync(member)
    commit(both, member.group, committed(subscribed, 1), committed(other, 2), **as_member(member))
    both.ask(
        "OffsetDelete",
        group_id=member.group,
        topics=[{"name": each, "partitions": [{"partition_index": 0}]} for each in (subscribed, other, "gone")],
    )
    fetch(both, member.group)
    member.leave()
    connect = Member(both, group_name(both), "one")
    connect.protocols = protocols("default", metadata=b"opaque")
    connect.join(protocol_type="connect")
    both.ask(
        "OffsetDelete",
        group_id=connect.group,
        topics=[{"name": other, "partitions": [{"partition_index": 0}]}],
    )
    described(both, connect.group)
    connect.leave()
    both.ask(
        "OffsetDelete",
        group_id=connect.group,
        topics=[{"name": other, "partitions": [{"partition_index": 0}]}],
    )


@scenario("DescribeGroups")
def describe_groups(both: Both) -> None:
    one, two = stable(both, "one", "two")
    topic, group = both.topic(), group_name(both)
    commit(both, group, committed(topic, 1))
    described(both, one.group, group, group_name(both), "")
    described(both)
    described(both, one.group, group, group_name(both), include_authorized_operations=True)
    one.begin_join()
    wait_for(both, one.group, "PreparingRebalance", 2)
    described(both, one.group)
    two.join()
    one.end_join()
    described(both, one.group)
    gone(one, two)
    described(both, one.group)


def listed(both: Both, *groups: str, states: Sequence[str] = (), types: Sequence[str] = ()) -> None:
    """Compare the lists of groups, restricted to these groups."""
    version = both.version_of("ListGroups")
    filters: dict[str, Any] = {"states_filter": list(states), "types_filter": list(types)}
    answers = both.ask_without_comparing("ListGroups", version, **filters)
    for each in answers:
        each["groups"] = [group for group in each["groups"] if group["group_id"] in groups]
    both.compare(f"ListGroups v{version} {filters}", answers)


@scenario("ListGroups")
def list_groups(both: Both) -> None:
    one, two = stable(both, "one", "two")
    topic, simple = both.topic(), group_name(both)
    commit(both, simple, committed(topic, 1))
    connect = Member(both, group_name(both), "connect")
    connect.join(protocol_type="connect")
    groups = (one.group, simple, connect.group)
    listed(both, *groups)
    for states in (["Stable"], ["stable"], ["Empty", "CompletingRebalance"], ["Dead"], ["nonsense"], ["", "Empty"]):
        listed(both, *groups, states=states)
    for types in (["classic"], ["Classic"], ["consumer"], ["nonsense"], [""], ["consumer", "classic"]):
        listed(both, *groups, types=types)
    listed(both, *groups, states=["Empty"], types=["classic"])
    gone(one, two, connect)
    listed(both, *groups)


@scenario("DeleteGroups")
def delete_groups(both: Both) -> None:
    (member,) = stable(both, "one")
    topic, simple, left = both.topic(), group_name(both), stable(both, "one")[0]
    left.leave()
    commit(both, simple, committed(topic, 1))
    both.ask("DeleteGroups", groups_names=[member.group, simple, left.group, group_name(both), ""])
    described(both, member.group, simple, left.group)
    fetch(both, simple)
    both.ask("DeleteGroups", groups_names=[simple, left.group])
    both.ask("DeleteGroups", groups_names=[])
    member.heartbeat()
    commit(both, simple, committed(topic, 1))
    both.ask("DeleteGroups", groups_names=[simple, simple])
    member.leave()
    both.ask("DeleteGroups", groups_names=[member.group])
    member.heartbeat()
    listed(both, member.group, simple, left.group)
