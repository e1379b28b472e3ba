"""Commands that are interrupted by a broker's death or by Ctrl-C leave nothing half done."""

import os
import signal
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import NamedTuple

import pytest

from ottla import Broker, Cluster
from ottla.embedded.broker import BrokerError
from tests.scripts.running import (
    CTRL_C,
    Running,
    environment,
    error_of,
    ottla,
    ottla_here,
    ottla_on_a_terminal,
    until,
)

pytestmark = pytest.mark.slow


class Endless(NamedTuple):
    """A command without end, and its first output: a line of stdout, after `|`, or a text on the terminal."""

    arguments: str
    sign: str
    needs_broker: bool = True
    """Whether it ends with its broker. The producers for tests continue, and print each failure."""

    def words(self, group: str) -> list[str]:
        """Return the arguments, with a group without members."""
        return self.arguments.replace("GROUP", group).split()


ENDLESS = (
    Endless("consume orders", "|first"),
    Endless("consume orders --output ndjson", '|{"topic": "orders"'),
    Endless("consume orders --last 1 --follow", "|second"),
    Endless("consume orders --group GROUP", "|first"),
    Endless("copy orders --as written --follow", "2/?"),
    Endless("groups describe billing --watch --interval 0.1", "|"),
    Endless("groups lag --watch --interval 0.1", "|"),
    Endless("perf produce written --duration 1h --rate 100", "MB/s", needs_broker=False),
    Endless("verifiable-consumer orders --group GROUP", '|{"timestamp"'),
    Endless("verifiable-producer written --rate 100", '|{"timestamp"', needs_broker=False),
)


def each(endless: Iterable[Endless]) -> pytest.MarkDecorator:
    return pytest.mark.parametrize("endless", list(endless), ids=lambda it: it.arguments)


@pytest.fixture(scope="module")
def lasting(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Broker, dict[str, str]]]:
    """Run a broker of Ottla with records in a topic, and a group."""
    env = environment(tmp_path_factory.mktemp("home"))
    with Broker() as running:
        for topic in ("orders", "written"):
            running.create_topic(topic, partitions=1)
        assert ottla("produce", "orders", "-b", running.bootstrap, stdin="first\nsecond\n", env=env).code == 0
        read = ("consume", "orders", "--exit-at-end", "--group", "billing", "-b", running.bootstrap)
        assert ottla(*read, env=env).code == 0
        yield running, env


@pytest.fixture
def broker(lasting: tuple[Broker, dict[str, str]]) -> Iterator[Broker]:
    """Return the broker, and start it again if a test killed it."""
    running, _ = lasting
    yield running
    running.kill()
    running.start()


@pytest.fixture
def env(lasting: tuple[Broker, dict[str, str]]) -> dict[str, str]:
    return lasting[1]


@each(it for it in ENDLESS if it.needs_broker)
def test_a_command_ends_with_one_line_after_its_broker_dies(
    broker: Broker, env: dict[str, str], endless: Endless
) -> None:
    with Running(env, *endless.words("left"), "-b", broker.bootstrap, "--timeout", "3") as process:
        process.wait_for(endless.sign)
        broker.kill()
        ended = process.ended()
    assert (ended.code, "Traceback" in ended.stderr) == (1, False), ended
    assert f"ottla: {broker.bootstrap}: " in ended.stderr


def test_a_producer_prints_its_counts_after_its_broker_dies(broker: Broker, env: dict[str, str]) -> None:
    with Running(env, "produce", "written", "-b", broker.bootstrap, "--timeout", "3") as process:
        process.write("one\n")
        process.wait_for("1 records written")
        broker.kill()
        process.write("two\n")
        ended = process.ended(at_end_of_input=True)
    assert (ended.code, "Traceback" in ended.stderr) == (1, False), ended
    assert [(row[2], row[5]) for row in ended.rows] == [("1", "-"), ("1", "OperationTimedOut")]
    assert ended.stderr.endswith("ottla: 1 record written, 1 failed\n")


@each(ENDLESS)
def test_ctrl_c_ends_commands_without_end(broker: Broker, env: dict[str, str], endless: Endless) -> None:
    with Running(env, *endless.words("interrupted"), "-b", broker.bootstrap) as process:
        process.wait_for(endless.sign)
        process.interrupt()
        ended = process.ended()
    assert (ended.code, "Traceback" in ended.stderr) == (130, False), ended


def test_after_ctrl_c_the_records_read_before_are_written(broker: Broker, env: dict[str, str]) -> None:
    with Running(env, "produce", "written", "-b", broker.bootstrap, "-o", "json") as process:
        process.write("one\ntwo\nhal")
        process.wait_for("2 records written")
        process.interrupt()
        ended = process.ended()
    assert (ended.code, error_of(ended)["code"]) == (130, "Interrupted")
    assert [(item["records"], item["error"]) for item in ended.items] == [(2, None)]


def test_after_ctrl_c_the_document_has_the_rows_so_far(broker: Broker, env: dict[str, str], tmp_path: Path) -> None:
    file = tmp_path / "client.properties"
    file.write_text("auto.commit.interval.ms=100\n")
    consume = ("consume", "orders", "--group", "documents", "--command-config", str(file), "-o", "json")
    lag = ("groups", "describe", "documents", "-b", broker.bootstrap, "-o", "json")
    with Running(env, *consume, "-b", broker.bootstrap) as process:
        until(lambda: [item["lag"] for item in ottla_here(*lag, env=env).items] == [0])
        process.interrupt()
        ended = process.ended()
    assert (ended.code, error_of(ended)["code"]) == (130, "Interrupted")
    assert [item["value"] for item in ended.items][:2] == ["first", "second"]


def test_a_dry_run_prints_the_reason_why_a_group_cannot_be_deleted(broker: Broker, env: dict[str, str]) -> None:
    delete = ("groups", "delete", "live", "--dry-run", "-b", broker.bootstrap, "-o", "json")
    with Running(env, "consume", "orders", "--group", "live", "-b", broker.bootstrap) as process:
        process.wait_for("|first")
        refused = ottla_here(*delete, env=env)
        assert (refused.code, [item["error"] for item in refused.items]) == (1, ["NON_EMPTY_GROUP"])
        process.interrupt()
        assert process.ended().code == 130
    ended = ottla_here(*delete, env=env)
    assert (ended.code, [item["deleted"] for item in ended.items]) == (0, [False])


def test_a_question_ends_with_ctrl_c_or_with_no(broker: Broker, env: dict[str, str]) -> None:
    delete = ("topics", "delete", "orders", "-b", broker.bootstrap)
    interrupted = ottla_on_a_terminal(*delete, typed=[("[y/N]", CTRL_C)], env=env)
    assert (interrupted.code, "Traceback" in interrupted.stdout) == (130, False)
    for answer in ("n\n", "\x04"):  # no, and the end of the input
        declined = ottla_on_a_terminal(*delete, typed=[("[y/N]", answer)], env=env)
        assert (declined.code, "ottla: nothing was changed\n" in declined.stdout) == (1, True)
    assert ottla("topics", "describe", "orders", "-b", broker.bootstrap, env=env).code == 0
    asked = ottla_on_a_terminal("users", "add", "bob", "-b", broker.bootstrap, typed=[("Password: ", CTRL_C)], env=env)
    assert (asked.code, "Traceback" in asked.stdout) == (130, False)


def test_brokers_that_die_end_the_watch_over_a_reassignment(tmp_path: Path) -> None:
    env = environment(tmp_path)
    plan = tmp_path / "plan.json"
    plan.write_text('{"items": [{"topic": "orders", "partition": 0, "replicas": [0, 2]}]}')
    with Cluster(auto_leader_rebalance_enable="false") as cluster:
        where = ("-b", cluster.bootstrap)
        assert ottla("topics", "create", "orders", "--assignment", "0:1", *where, env=env).code == 0
        lines = "\n".join(os.urandom(25_000).hex() for _ in range(100))
        assert ottla("produce", "orders", *where, stdin=lines, env=env).code == 0
        throttled = ("reassign", "start", str(plan), "--throttle", "1kB", "--yes")
        assert ottla(*throttled, *where, env=env).code == 0
        with Running(env, "reassign", "watch", *where, "--timeout", "3") as process:
            process.wait_for("copying")
            os.kill(cluster.pid, signal.SIGKILL)
            ended = process.ended()
        with pytest.raises(BrokerError):
            cluster.close()
    assert (ended.code, "Traceback" in ended.stderr) == (1, False), ended
    assert any(address in ended.stderr for address in where[1].split(","))
