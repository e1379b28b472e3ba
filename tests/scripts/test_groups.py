"""`ottla groups` on a real broker."""

import contextlib
import itertools
import os
import pty
import select
import signal
import stat
import subprocess
import time
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import confluent_kafka
import pytest
import trio
from confluent_kafka.admin import AdminClient
from confluent_kafka.cimpl import NewTopic

from ottla import Broker
from ottla.client.admin.groups.committed_offsets import Committed, Offsets, commit_offsets, committed_offsets
from ottla.client.admin.records import delete_records
from ottla.client.cluster import open_client
from ottla.client.config import ClientConfig
from ottla.wire.types import TopicPartition
from tests.scripts.running import COMMAND, PATIENCE_S, Ended, environment, ottla, ottla_on_a_terminal

pytestmark = pytest.mark.slow
LONG_AGO = 1_700_000_000_000
OFFSETS = {TopicPartition("orders", 0): Committed(3, 0, "mine"), TopicPartition("orders", 1): Committed(1)}
_numbers = itertools.count()


@pytest.fixture(scope="module")
def broker() -> Iterator[Broker]:
    """Run a broker with a topic `orders`: ten records, one each second, in two of three partitions."""
    with Broker() as running:
        admin = AdminClient({"bootstrap.servers": running.bootstrap, "log_level": 0})
        topics = [NewTopic("orders", 3, 1, config={"retention.ms": "-1"}), NewTopic("audit", 1, 1)]
        for each in admin.create_topics(topics).values():
            each.result(PATIENCE_S)
        settings = {"bootstrap.servers": running.bootstrap, "log_level": 0, "compression.type": "lz4", "linger.ms": 50}
        producer = confluent_kafka.Producer(settings)
        for number in range(10):
            producer.produce(
                "orders",
                b"v",
                f"key-{number}".encode(),
                partition=number % 2,
                timestamp=LONG_AGO + number * 1000,
                headers=[("kind", f"kind-{number // 4}".encode())],
            )
        producer.produce("audit", b"v")
        assert producer.flush(PATIENCE_S) == 0
        yield running


@pytest.fixture
def env(tmp_path: Path) -> dict[str, str]:
    return environment(tmp_path)


@pytest.fixture
def group(broker: Broker) -> str:
    """Create a group of the test's own, which has read a part of `orders`; return its name."""
    name = f"group-{next(_numbers)}"
    commit(broker, name, OFFSETS)
    return name


def with_client(broker: Broker, work: Any, *arguments: Any) -> Any:
    async def main() -> Any:
        async with open_client(ClientConfig({"bootstrap.servers": broker.bootstrap})) as client:
            return await work(client, *arguments)

    return trio.run(main)


def commit(broker: Broker, group: str, offsets: Offsets) -> None:
    results = with_client(broker, commit_offsets, group, offsets)
    assert set(results.values()) == {None}


def committed(broker: Broker, group: str) -> Mapping[TopicPartition, Committed]:
    found: Mapping[TopicPartition, Committed] = with_client(broker, committed_offsets, [group])[group]
    return found


def offsets(broker: Broker, group: str) -> dict[int, int]:
    return {each.partition: found.offset for each, found in committed(broker, group).items()}


def run(broker: Broker, env: Mapping[str, str], *arguments: str) -> Ended:
    return ottla("groups", *arguments, "-b", broker.bootstrap, "-o", "json", env=env)


@contextlib.contextmanager
def member(broker: Broker, group: str, topic: str = "orders") -> Iterator[confluent_kafka.Consumer]:
    """Yield a consumer in a group, with assigned partitions."""
    settings = {"group.id": group, "client.id": "reader", "enable.auto.commit": False, "log_level": 0}
    consumer = confluent_kafka.Consumer({"bootstrap.servers": broker.bootstrap, **settings})
    consumer.subscribe([topic])
    deadline = time.monotonic() + PATIENCE_S
    while not consumer.assignment():
        assert time.monotonic() < deadline
        consumer.poll(0.1)
    yield consumer
    consumer.close()


def undo_names(env: Mapping[str, str]) -> list[str]:
    return sorted(each.stem for each in (Path(env["XDG_STATE_HOME"]) / "ottla" / "undo").glob("*.json"))


# Looking


def test_groups_are_listed_with_state_type_and_coordinator(broker: Broker, env: dict[str, str], group: str) -> None:
    (item,) = run(broker, env, "list", f"{group[:-1]}[{group[-1]}]").items
    assert item == {"group": group, "state": "Empty", "type": "classic", "protocol": "", "coordinator": 1001}
    assert run(broker, env, "list", group, "--state", "Stable").items == []
    assert run(broker, env, "list", group, "--state", "Empty", "--type", "classic").items == [item]
    assert run(broker, env, "list", "no-such-*").items == []


def test_a_group_is_described_with_its_lag_in_records_and_in_seconds(
    broker: Broker, env: dict[str, str], group: str
) -> None:
    commit(broker, group, {TopicPartition("orders", 1): Committed(5)})
    before = time.time()
    behind, read = run(broker, env, "describe", group).items
    assert (behind["committed_offset"], behind["log_end_offset"], behind["lag"]) == (3, 5, 2)
    assert (behind["leader_epoch"], behind["metadata"]) == (0, "mine")
    # The first unread record of partition 0 is the fourth one: the seventh of all.
    written = LONG_AGO / 1000 + 6
    assert before - written <= behind["lag_seconds"] <= time.time() - written
    assert (read["lag"], read["lag_seconds"], read["member_id"], read["error"]) == (0, 0.0, None, None)


def test_the_lag_in_seconds_is_unknown_if_the_record_was_deleted(broker: Broker, env: dict[str, str]) -> None:
    partition = TopicPartition("audit", 0)
    commit(broker, "of-the-audit", {partition: Committed(0)})
    (fresh,) = run(broker, env, "describe", "of-the-audit").items
    assert fresh["lag_seconds"] is not None
    with_client(broker, delete_records, {partition: 1})
    (gone,) = run(broker, env, "describe", "of-the-audit").items
    assert (gone["lag"], gone["lag_seconds"]) == (1, None)


def test_members_are_described_with_their_partitions(broker: Broker, env: dict[str, str], group: str) -> None:
    with member(broker, group):
        rows = run(broker, env, "describe", group).items
        assert [row["client_id"] for row in rows] == ["reader"] * 3
        assert [row["committed_offset"] for row in rows] == [3, 1, None]
        (item,) = run(broker, env, "describe", group, "--members").items
        assert (item["partitions"], item["assignment"]) == (3, ["orders:0", "orders:1", "orders:2"])
        assert (item["client_id"], item["host"]) == ("reader", "/127.0.0.1")
        (item,) = run(broker, env, "describe", group, "--state").items
        assert (item["state"], item["members"], item["address"]) == ("Stable", 1, broker.bootstrap)


def test_the_lag_of_groups_is_summed(broker: Broker, env: dict[str, str], group: str) -> None:
    (item,) = run(broker, env, "lag", group).items
    assert (item["group"], item["partitions"], item["lag"]) == (group, 2, 6)
    # The first unread record of partition 1 is older: it is the fourth of all.
    assert item["lag_seconds"] >= time.time() - LONG_AGO / 1000 - 3 - PATIENCE_S


def test_several_groups_in_one_partition_have_their_own_lags(broker: Broker, env: dict[str, str]) -> None:
    names = [f"together-{number}" for number in range(3)]
    for number, name in enumerate(names):
        commit(broker, name, {TopicPartition("orders", 0): Committed(number)})
    items = run(broker, env, "lag", "together-*").items
    assert [item["lag"] for item in items] == [5, 4, 3]
    seconds = [item["lag_seconds"] for item in items]
    # Two seconds lie between the records of a partition.
    assert [round(one - other) for one, other in itertools.pairwise(seconds)] == [2, 2]


def test_records_of_any_size_are_read_for_the_lag(broker: Broker, env: dict[str, str]) -> None:
    admin = AdminClient({"bootstrap.servers": broker.bootstrap, "log_level": 0})
    admin.create_topics([NewTopic("large", 16, 1, config={"retention.ms": "-1"})])["large"].result(PATIENCE_S)
    producer = confluent_kafka.Producer({"bootstrap.servers": broker.bootstrap, "log_level": 0})
    for number in range(16):
        producer.produce("large", bytes(100_000), partition=number, timestamp=LONG_AGO - number * 1000)
    assert producer.flush(PATIENCE_S) == 0
    commit(broker, "of-large", {TopicPartition("large", number): Committed(0) for number in range(16)})
    seconds = [item["lag_seconds"] for item in run(broker, env, "describe", "of-large").items]
    assert [round(other - one) for one, other in itertools.pairwise(seconds)] == [1] * 15


def test_a_group_that_does_not_exist_is_a_failed_item(broker: Broker, env: dict[str, str], group: str) -> None:
    ended = run(broker, env, "describe", "gone", group)
    assert ended.code == 1
    assert [item["error"] for item in ended.items] == ["GROUP_ID_NOT_FOUND", None, None]
    for view in ("--members", "--state"):
        assert run(broker, env, "describe", "gone", view).code == 1


def test_watching_prints_rows_until_it_is_interrupted(broker: Broker, env: dict[str, str], group: str) -> None:
    arguments = ("groups", "lag", group, "--watch", "--interval", "0.1", "-b", broker.bootstrap)
    process = subprocess.Popen([*COMMAND, *arguments], stdout=subprocess.PIPE, text=True, env=env)
    assert process.stdout is not None
    rows = [process.stdout.readline().split("\t") for _ in range(3)]
    process.send_signal(signal.SIGINT)
    assert process.wait(PATIENCE_S) == 130
    process.stdout.close()
    assert [row[1] for row in rows] == [group] * 3
    assert len({row[0] for row in rows}) == 3


def test_watching_on_a_terminal_shows_a_screen(broker: Broker, env: dict[str, str], group: str) -> None:
    arguments = ("groups", "describe", group, "--watch", "--interval", "0.1", "-b", broker.bootstrap)
    ours, theirs = pty.openpty()
    process = subprocess.Popen([*COMMAND, *arguments], stdin=theirs, stdout=theirs, env={**env, "TERM": "xterm"})
    os.close(theirs)
    seen = b""
    while seen.count(group.encode()) < 3:
        assert select.select([ours], [], [], PATIENCE_S)[0]
        seen += os.read(ours, 65536)
    process.send_signal(signal.SIGINT)
    with contextlib.suppress(OSError):  # its other end is closed
        while os.read(ours, 65536):
            pass
    os.close(ours)
    assert process.wait(PATIENCE_S) == 130
    assert b"every 0.1 s" in seen


# Reset


@pytest.mark.parametrize(
    ("mode", "expected"),
    [
        (["--to-earliest"], {0: 0, 1: 0}),
        (["--to-latest"], {0: 5, 1: 5}),
        (["--to-current"], {0: 3, 1: 1}),
        (["--to-offset", "2"], {0: 2, 1: 2}),
        (["--to-offset", "99"], {0: 5, 1: 5}),
        (["--shift-by", "-2"], {0: 1, 1: 0}),
        (["--to-datetime", "2023-11-14T22:13:25Z"], {0: 3, 1: 2}),
        (["--to-datetime", "2023-11-14T22:13:25"], {0: 3, 1: 2}),
        (["--by-duration", "1h"], {0: 5, 1: 5}),
        (["--by-duration", "P9999D"], {0: 0, 1: 0}),
        (["--topic", "orders:1", "--to-latest"], {0: 3, 1: 5}),
        (["--topic", "orders", "--to-earliest"], {0: 0, 1: 0, 2: 0}),
    ],
)
def test_offsets_are_reset(
    broker: Broker, env: dict[str, str], group: str, mode: list[str], expected: dict[int, int]
) -> None:
    dry = run(broker, env, "reset", group, *mode, "--dry-run")
    assert (dry.code, dry.document["dry_run"], offsets(broker, group)) == (0, True, {0: 3, 1: 1})
    assert undo_names(env) == []
    ended = run(broker, env, "reset", group, *mode, "--yes")
    assert ended.code == 0, ended
    assert offsets(broker, group) == expected
    assert {item["partition"]: item["new_offset"] for item in ended.items}.items() <= expected.items()
    assert [item["changed"] for item in dry.items] == [False] * len(dry.items)


def test_offsets_are_reset_to_a_record(broker: Broker, env: dict[str, str], group: str) -> None:
    ended = run(broker, env, "reset", group, "--to-record", "key=key-[58]", "--yes")
    assert ended.code == 0, ended
    assert offsets(broker, group) == {0: 4, 1: 2}
    ended = run(broker, env, "reset", group, "--to-record", "header=kind:*2", "--yes")
    assert ended.code == 0, ended
    assert offsets(broker, group) == {0: 4, 1: 4}


def test_a_partition_without_such_a_record_stays(broker: Broker, env: dict[str, str], group: str) -> None:
    ended = run(broker, env, "reset", group, "--to-record", "key=key-7", "--yes")
    assert ended.code == 1
    assert offsets(broker, group) == {0: 3, 1: 3}
    assert ("RESOURCE_NOT_FOUND", "no record matches") in {(item["error"], item["message"]) for item in ended.items}
    bounded = run(broker, env, "reset", group, "--to-record", "key=gone", "--most-records", "1", "--yes")
    assert bounded.code == 1
    assert offsets(broker, group) == {0: 3, 1: 3}


def test_offsets_are_reset_to_those_of_another_group_or_of_a_file(
    broker: Broker, env: dict[str, str], group: str, tmp_path: Path
) -> None:
    assert run(broker, env, "reset", "copy", "--as", group, "--yes").code == 0
    assert offsets(broker, "copy") == {0: 3, 1: 1}
    file = tmp_path / "plan.csv"
    file.write_text(f'"orders",0,2\n{group},orders,2,0\nother,orders,1,0\n')
    assert run(broker, env, "reset", group, "--from-file", str(file), "--yes").code == 0
    assert offsets(broker, group) == {0: 2, 1: 1, 2: 0}
    file.write_text("orders;0;2\n")
    assert run(broker, env, "reset", group, "--from-file", str(file), "--yes").code == 2


def test_a_reset_shows_what_it_does_and_asks(broker: Broker, env: dict[str, str], group: str) -> None:
    silent = run(broker, env, "reset", group, "--to-earliest")
    assert silent.code == 2
    assert "--yes" in silent.stderr
    command = ("groups", "reset", group, "--to-earliest", "-b", broker.bootstrap)
    refused = ottla_on_a_terminal(*command, typed=[("[y/N]", "n\n")], env=env)
    assert refused.code == 1
    assert "CURRENT-OFFSET  NEW-OFFSET" in refused.stdout
    assert (offsets(broker, group), undo_names(env)) == ({0: 3, 1: 1}, [])
    assert ottla_on_a_terminal(*command, typed=[("[y/N]", "y\n")], env=env).code == 0
    assert offsets(broker, group) == {0: 0, 1: 0}


def test_a_live_group_is_refused_with_the_names_of_its_members(broker: Broker, env: dict[str, str], group: str) -> None:
    with member(broker, group) as consumer:
        ended = run(broker, env, "reset", group, "--to-earliest", "--yes")
        assert ended.code == 1
        (item,) = ended.items
        assert item["error"] == "NON_EMPTY_GROUP"
        for word in (consumer.memberid(), "client reader", "host /127.0.0.1", "stop them"):
            assert word in item["message"]
            assert word in ended.stderr
    assert offsets(broker, group) == {0: 3, 1: 1}


@pytest.mark.parametrize(
    "mode",
    [[], ["--to-earliest", "--to-latest"], ["--to-record", "colour=red"], ["--topic", "orders:x", "--to-latest"]],
)
def test_a_reset_without_one_mode_is_wrong_usage(
    broker: Broker, env: dict[str, str], group: str, mode: list[str]
) -> None:
    assert run(broker, env, "reset", group, *mode, "--yes").code == 2


# Undo


def test_undo_restores_the_offsets_that_a_reset_overwrote(broker: Broker, env: dict[str, str], group: str) -> None:
    ended = run(broker, env, "reset", group, "--topic", "orders", "--to-latest", "--yes")
    (name,) = undo_names(env)
    assert {item["undo"] for item in ended.items} == {name}
    assert f"ottla groups undo {name}" in ended.stderr
    file = Path(env["XDG_STATE_HOME"]) / "ottla" / "undo" / f"{name}.json"
    assert stat.S_IMODE(file.stat().st_mode) == 0o600
    (listed,) = run(broker, env, "undo").items
    assert (listed["undo"], listed["groups"], listed["partitions"]) == (name, [group], 3)
    assert run(broker, env, "undo", name, "--dry-run").code == 0
    assert offsets(broker, group) == {0: 5, 1: 5, 2: 0}
    assert run(broker, env, "undo", name).code == 2
    given_back = run(broker, env, "undo", name, "--yes")
    assert given_back.code == 0, given_back
    # With metadata and leader epoch; the partition without an earlier commit has none again.
    assert committed(broker, group) == OFFSETS
    assert name not in undo_names(env)


def test_an_undo_can_be_undone(broker: Broker, env: dict[str, str], group: str) -> None:
    run(broker, env, "reset", group, "--topic", "orders", "--to-latest", "--yes")
    (reset,) = undo_names(env)
    assert run(broker, env, "undo", reset, "--yes").code == 0
    (undone,) = undo_names(env)
    assert run(broker, env, "undo", undone, "--yes").code == 0
    assert offsets(broker, group) == {0: 5, 1: 5, 2: 0}


def test_undo_refuses_after_a_later_commit(broker: Broker, env: dict[str, str], group: str) -> None:
    run(broker, env, "reset", group, "--to-earliest", "--yes")
    (name,) = undo_names(env)
    commit(broker, group, {TopicPartition("orders", 0): Committed(2)})
    refused = run(broker, env, "undo", name, "--yes")
    assert refused.code == 1
    assert "--force" in refused.stderr
    (item,) = refused.items
    assert (item["partition"], item["changed"]) == (0, False)
    assert "offset 2 is committed now, but the change had committed offset 0" in item["message"]
    assert offsets(broker, group) == {0: 2, 1: 0}
    assert undo_names(env) == [name]
    assert run(broker, env, "undo", name, "--yes", "--force").code == 0
    assert committed(broker, group) == OFFSETS


def test_undo_refuses_a_live_group(broker: Broker, env: dict[str, str], group: str) -> None:
    run(broker, env, "reset", group, "--to-earliest", "--yes")
    (name,) = undo_names(env)
    with member(broker, group):
        refused = run(broker, env, "undo", name, "--yes")
        assert refused.code == 1
        assert [item["error"] for item in refused.items] == ["NON_EMPTY_GROUP"]
    assert undo_names(env) == [name]


def test_undo_is_for_the_cluster_of_the_reset(broker: Broker, env: dict[str, str], group: str) -> None:
    run(broker, env, "reset", group, "--to-earliest", "--yes")
    (name,) = undo_names(env)
    with Broker() as other:
        refused = run(other, env, "undo", name, "--yes")
    assert refused.code == 1
    assert "this is cluster" in refused.stderr


def test_an_undo_that_does_not_exist_is_wrong_usage(broker: Broker, env: dict[str, str]) -> None:
    assert run(broker, env, "undo").items == []
    for name in ("gone", "../profiles"):
        assert run(broker, env, "undo", name).code == 2


def test_a_reset_saves_old_offsets_before_it_commits(broker: Broker, env: dict[str, str], group: str) -> None:
    folder = Path(env["XDG_STATE_HOME"]) / "ottla"
    folder.mkdir()
    (folder / "undo").write_text("where the folder should be")
    assert run(broker, env, "reset", group, "--to-earliest", "--yes").code == 1
    assert committed(broker, group) == OFFSETS


# Deleting


def test_offsets_are_deleted_and_restored(broker: Broker, env: dict[str, str], group: str) -> None:
    assert run(broker, env, "delete-offsets", group, "--topic", "orders").code == 2
    ended = run(broker, env, "delete-offsets", group, "--topic", "orders:0", "--topic", "gone", "--yes")
    assert ended.code == 1
    assert {item["error"] for item in ended.items} == {None, "RESOURCE_NOT_FOUND"}
    assert offsets(broker, group) == {1: 1}
    (name,) = undo_names(env)
    assert run(broker, env, "undo", name, "--yes").code == 0
    assert committed(broker, group) == OFFSETS


def test_groups_are_deleted(broker: Broker, env: dict[str, str], group: str) -> None:
    assert run(broker, env, "delete", group).code == 2
    assert [item["deleted"] for item in run(broker, env, "delete", group, "--dry-run").items] == [False]
    assert offsets(broker, group)
    ended = run(broker, env, "delete", group, "gone", "--yes")
    assert ended.code == 1
    assert {item["group"]: (item["deleted"], item["error"]) for item in ended.items} == {
        group: (True, None),
        "gone": (False, "GROUP_ID_NOT_FOUND"),
    }
    assert offsets(broker, group) == {}


def test_listing_groups_starts_quickly_enough_to_leave_heavy_modules_alone() -> None:
    code = "import ottla.scripts.groups, sys; print([each for each in ('rich', 'trio') if each in sys.modules])"
    done = subprocess.run([COMMAND[0], "-P", "-c", code], capture_output=True, text=True, env=os.environ, check=True)
    assert done.stdout.strip() in ("[]", "['trio']")
