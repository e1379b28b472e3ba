"""`ottla transactions`: usage, and on Ottla and on a Kafka 4.3 with transactions in every state."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner

from compat_tests.support.brokers import ApacheKafka, Broker, Ottla, running
from compat_tests.support.transactional import TOPIC, Transactions
from compat_tests.tools.imitation.transactions import SETTINGS
from ottla.scripts.transactions import transactions
from tests.scripts.running import Ended, environment, ottla

NOBODY = ("-b", "127.0.0.1:1")


@pytest.mark.parametrize(
    ("arguments", "reason"),
    [
        (["list", "--state", "frob"], "frob"),
        (["list", "--longer-than", "ages"], "not a duration"),
        (["describe"], "TRANSACTIONAL_ID"),
        (["producers", "t:x"], "partitions are numbers"),
        (["abort", "t", "5"], "name one partition"),
        (["abort", "t:0,1", "5"], "name one partition"),
        (["abort", "t:0"], "START_OFFSET"),
        (["terminate"], "TRANSACTIONAL_ID"),
    ],
)
def test_wrong_usage_is_refused(arguments: list[str], reason: str) -> None:
    ended = CliRunner().invoke(transactions, [*arguments, *NOBODY])
    assert (ended.exit_code, reason in ended.output) == (2, True), ended.output


class Commands:
    """Commands on one broker, with JSON as their output."""

    def __init__(self, broker: Broker, home: Path) -> None:
        self.bootstrap = broker.bootstrap
        self._env = environment(home)

    def __call__(self, *arguments: str, code: int = 0) -> Ended:
        ended = ottla("transactions", *arguments, "-b", self.bootstrap, "-o", "json", env=self._env)
        assert ended.code == code, ended
        return ended


@pytest.fixture(scope="module", params=[Ottla, ApacheKafka], ids=["ottla", "kafka"])
def broker(request: pytest.FixtureRequest) -> Iterator[Broker]:
    with running(request.param, ["node.id=1", *SETTINGS[request.param.name]]) as broker:
        made = Transactions(broker.bootstrap)
        yield broker
        made.close()


@pytest.fixture
def run(broker: Broker, tmp_path: Path) -> Commands:
    return Commands(broker, tmp_path)


def states(items: list[dict[str, Any]]) -> dict[str, str]:
    return {item["transactional_id"]: item["state"] for item in items}


@pytest.mark.slow
def test_transactions_are_listed_by_their_state_and_age(run: Commands) -> None:
    everything = {
        "tx-aborted": "CompleteAbort", "tx-committed": "CompleteCommit", "tx-empty": "Empty", "tx-open": "Ongoing",
    }  # fmt: skip
    assert states(run("list").items) == everything
    assert states(run("list", "--state", "ongoing", "--state", "empty").items) == {
        "tx-empty": "Empty",
        "tx-open": "Ongoing",
    }
    assert run("list", "--longer-than", "1d").items == []


@pytest.mark.slow
def test_transactions_are_listed_by_the_form_of_their_names(broker: Broker, run: Commands) -> None:
    if broker.name == Ottla.name:
        # As Kafka 3.9.
        assert "offers LIST_TRANSACTIONS in versions 0 to 1" in run("list", "--regex", ".*ed", code=1).stderr
    else:
        assert states(run("list", "--regex", ".*ed").items).keys() == {"tx-aborted", "tx-committed"}


@pytest.mark.slow
def test_transactions_are_described_and_a_missing_one_is_an_error(run: Commands) -> None:
    opened, missing = run("describe", "tx-open", "tx-missing", code=1).items
    assert (opened["state"], opened["coordinator"], opened["timeout_ms"]) == ("Ongoing", 1, 600_000)
    assert (opened["partitions"], opened["start_time_ms"] > 0) == ([f"{TOPIC}-0", f"{TOPIC}-1"], True)
    assert (missing["error"], missing["state"]) == ("TRANSACTIONAL_ID_NOT_FOUND", None)


@pytest.mark.slow
def test_producers_are_described_with_their_open_transactions(run: Commands) -> None:
    items = run("producers", f"{TOPIC}:1").items
    assert [item["start_offset"] for item in items] == [0, 1]
    assert {item["partition"] for item in run("producers", TOPIC).items} == {0, 1}
    assert run("producers", f"{TOPIC}:1", "--broker", "1").items == items
    (missing,) = run("producers", f"{TOPIC}:9", code=1).items
    assert missing["error"] == "UNKNOWN_TOPIC_OR_PARTITION"


@pytest.mark.slow
def test_a_hanging_transaction_is_found_and_aborted(run: Commands) -> None:
    assert run("find-hanging").items == []
    (found,) = run("find-hanging", "--older-than", "0ms").items
    assert (found["topic"], found["partition"], found["start_offset"]) == (TOPIC, 1, 1)
    where = (f"{TOPIC}:1", str(found["start_offset"]))
    dry = run("abort", *where, "--dry-run")
    assert (dry.document["dry_run"], dry.items[0]["aborted"]) == (True, False)
    assert "There is no terminal to ask" in run("abort", *where, code=2).stderr
    assert run("abort", *where, "--yes").items[0]["aborted"]
    assert run("find-hanging", TOPIC, "--older-than", "0ms").items == []
    assert "no open transaction begins at offset 1" in run("abort", *where, "--yes", code=1).stderr


@pytest.mark.slow
def test_a_transaction_that_a_coordinator_knows_is_not_aborted_without_it(run: Commands) -> None:
    ended = run("abort", f"{TOPIC}:1", "0", "--yes", code=1)
    assert "a coordinator knows the transaction" in ended.stderr


@pytest.mark.slow
def test_a_producer_is_fenced(run: Commands) -> None:
    made, _ = run("terminate", "tx-empty", "tx-missing", "--dry-run", code=1).items
    assert (made["terminated"], made["state"]) == (False, "Empty")
    assert "There is no terminal to ask" in run("terminate", "tx-empty", code=2).stderr
    before = run("describe", "tx-empty").items[0]
    assert run("terminate", "tx-empty", "--yes").items[0]["terminated"]
    after = run("describe", "tx-empty").items[0]
    assert (after["producer_id"], after["producer_epoch"]) > (before["producer_id"], before["producer_epoch"])
    assert run("terminate", "tx-missing", "--yes", code=1).items[0]["error"] == "TRANSACTIONAL_ID_NOT_FOUND"
    assert "tx-missing" not in states(run("list").items)
