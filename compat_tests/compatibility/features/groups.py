"""Rows about consumer groups: the members' partitions, and the offsets at which reading continues."""

from functools import partial
from typing import Any

from compat_tests.compatibility.features.declaring import Feature
from compat_tests.compatibility.trials import Trial, expect

NO_KIP_848 = "not those of KIP-848 (`group.protocol=consumer`)"


def positions(*offsets: int, partition: int = 0) -> list[list[int]]:
    return [[partition, offset] for offset in offsets]


def share_and_leave(trial: Trial, **given: Any) -> None:
    trial.create_topic(4)
    with trial.member(**given) as one:
        trial.wait_until(lambda: len(one.assigned()), 4)
        with trial.member(**given) as two:
            trial.wait_until(lambda: sorted(map(len, (one.assigned(), two.assigned()))), [2, 2])
            trial.wait_until(lambda: sorted(one.assigned() + two.assigned()), [0, 1, 2, 3])
        trial.wait_until(one.assigned, [0, 1, 2, 3])


def newer_protocol(trial: Trial) -> None:
    share_and_leave(trial, protocol="consumer")
    # A client may fall back to the classic protocol.
    expect(trial.group_type(), "CONSUMER")


def static_membership(trial: Trial) -> None:
    trial.create_topic(4)
    with trial.member(instance="two") as two:
        with trial.member(instance="one") as one:
            trial.wait_until(lambda: sorted(map(len, (one.assigned(), two.assigned()))), [2, 2])
            before, changes = one.assigned(), two.changes()
        with trial.member(instance="one") as again:
            trial.wait_until(again.assigned, before)
            trial.wait_until(two.changes, changes)


def commit_and_resume(trial: Trial) -> None:
    trial.create_topic()
    trial.fill(*"abcde")
    with trial.member() as one:
        trial.wait_until(one.read, positions(*range(5)))
        one.tell("commit")
    trial.fill(*"fg")
    with trial.member() as two:
        trial.wait_until(two.read, positions(5, 6))


def commit_by_itself(trial: Trial) -> None:
    trial.create_topic()
    trial.fill(*"abcde")
    with trial.member(auto_commit=True) as one:
        trial.wait_until(one.read, positions(*range(5)))
        trial.wait_until(trial.committed, 5)


def seek_to_beginning(trial: Trial) -> None:
    trial.create_topic()
    trial.fill(*"abc")
    with trial.member() as one:
        trial.wait_until(one.read, positions(0, 1, 2))
        one.tell("seek_to_beginning")
        trial.wait_until(one.read, positions(0, 1, 2, 0, 1, 2))


def seek_to_offset(trial: Trial) -> None:
    trial.create_topic()
    trial.fill(*"abc")
    with trial.member() as one:
        trial.wait_until(one.read, positions(0, 1, 2))
        one.tell("seek", topic=trial.topic, partition=0, offset=1)
        trial.wait_until(one.read, positions(0, 1, 2, 1, 2))


def seek_to_end(trial: Trial) -> None:
    trial.create_topic()
    trial.fill(*"abc")
    with trial.member() as one:
        trial.wait_until(one.read, positions(0, 1, 2))
        one.tell("pause", topic=trial.topic, partition=0)
        trial.fill(*"def")
        one.tell("seek_to_end")
        one.tell("resume", topic=trial.topic, partition=0)
        trial.fill("g")
        trial.wait_until(one.read, positions(0, 1, 2, 6))


def pause_and_resume(trial: Trial) -> None:
    trial.create_topic(2)
    trial.fill("a")
    others = positions(0, partition=1)
    with trial.member() as one:
        trial.wait_until(one.read, positions(0))
        one.tell("pause", topic=trial.topic, partition=0)
        # A fetch of both partitions that was sent before is answered with this record.
        trial.fill("other", partition=1)
        trial.wait_until(one.read, positions(0) + others)
        trial.fill("b")
        trial.fill("another", partition=1)
        others += positions(1, partition=1)
        trial.wait_until(one.read, positions(0) + others)
        one.tell("resume", topic=trial.topic, partition=0)
        trial.wait_until(one.read, positions(0) + others + positions(1))


STRATEGIES = ("range", "roundrobin", "sticky", "cooperative-sticky")
ROWS = [
    *[
        Feature(f"two members share, one leaves: {each}", partial(share_and_leave, strategy=each))
        for each in STRATEGIES
    ],
    Feature("static membership: a member returns without a rebalance", static_membership),
    Feature("reading continues at committed offsets", commit_and_resume),
    Feature("offsets are committed automatically", commit_by_itself),
    Feature("a member seeks to the beginning", seek_to_beginning),
    Feature("a member seeks to an offset", seek_to_offset),
    Feature("a member seeks to the end", seek_to_end),
    Feature("a member pauses a partition and resumes", pause_and_resume),
    Feature("two members share, one leaves: the protocol of KIP-848", newer_protocol, unsupported=NO_KIP_848),
]
