"""`ottla acls` and `ottla tokens`: usage, and on a Kafka 4.3 with authentication."""

import base64
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, NamedTuple

import click
import pytest
from click.testing import CliRunner

from compat_tests.support.brokers import ApacheKafka, Broker, running
from compat_tests.tools.imitation.delegation_tokens import FILES, SETTINGS
from ottla.scripts.acls import acls
from ottla.scripts.tokens import tokens
from tests.scripts.running import Ended, environment, ottla, ottla_on_a_terminal

NOBODY = ("-b", "127.0.0.1:1")
PATIENCE_S = 60
ALICE = ("--allow", "User:alice")
READ = ("--operation", "read")


@pytest.mark.parametrize(
    ("group", "arguments", "reason"),
    [
        (acls, ["list", "--principal", "alice"], "use TYPE:NAME, such as User:alice"),
        (acls, ["add", *READ, "--topic", "t"], "--allow or --deny"),
        (acls, ["add", *ALICE, *READ], "name at least one resource"),
        (acls, ["add", *ALICE, "--topic", "t"], "name an operation with --operation, --producer or --consumer"),
        (acls, ["add", *ALICE, "--operation", "frob", "--topic", "t"], "frob"),
        (acls, ["add", *ALICE, "--operation", "any", "--topic", "t"], "any"),
        (acls, ["add", *ALICE, "--operation", "cluster-action", "--topic", "t"], "cluster-action: TOPIC has only"),
        (acls, ["add", *ALICE, "--pattern", "match", *READ, "--topic", "t"], "match"),
        (acls, ["add", *ALICE, "--producer", "--group", "g"], "--producer needs --topic"),
        (acls, ["add", *ALICE, "--producer", "--topic", "t", "--group", "g"], "no other resource"),
        (acls, ["add", *ALICE, "--consumer", "--topic", "t"], "--consumer needs --topic and --group"),
        (acls, ["add", *ALICE, "--consumer", "--topic", "t", "--group", "g", *READ], "no --operation"),
        (acls, ["remove", "--host", "10.0.0.1"], "name a resource or a principal"),
        (tokens, ["create", "--owner", "alice"], "User:alice"),
        (tokens, ["create", "--lifetime", "long"], "not a duration"),
        (tokens, ["renew"], "there is no terminal"),
        (tokens, ["renew", "--hmac-env", "OTTLA_NO_SUCH_VARIABLE"], "OTTLA_NO_SUCH_VARIABLE"),
        (tokens, ["renew", "--hmac-env", "HMAC", "--hmac-file", __file__], "exclude each other"),
        (tokens, ["expire", "--hmac-env", "HMAC", "--yes"], "must be in base64"),
        (tokens, ["expire", "--hmac", "c2VjcmV0"], "--hmac"),
    ],
)
def test_wrong_usage_is_refused(group: click.Group, arguments: list[str], reason: str) -> None:
    ended = CliRunner().invoke(group, [*arguments, *NOBODY], env={"HMAC": "no base64"})
    assert (ended.exit_code, reason in ended.output) == (2, True), ended.output


class Commands(NamedTuple):
    """Commands of users on one broker, with JSON as their output."""

    broker: Broker
    home: Path
    env: dict[str, str]

    def arguments(self, *words: str, user: str = "admin") -> list[str]:
        return [*words, "-b", self.broker.bootstrap, "--command-config", str(self.home / f"{user}.properties")]

    def __call__(self, *words: str, user: str = "admin", code: int = 0, **env: str) -> Ended:
        ended = ottla(*self.arguments(*words, user=user), "-o", "json", env={**self.env, **env})
        assert ended.code == code, ended
        return ended

    def until(self, holds: Callable[[list[dict[str, Any]]], bool], *words: str) -> list[dict[str, Any]]:
        """Run a command until its items are right, because a KRaft broker applies changes after its response."""
        deadline = time.monotonic() + PATIENCE_S
        while not holds(items := self(*words).items):
            assert time.monotonic() < deadline, items
        return items


@pytest.fixture(scope="module")
def kafka() -> Iterator[Broker]:
    with running(ApacheKafka, SETTINGS["Kafka"]) as broker:
        yield broker


@pytest.fixture
def run(kafka: Broker, tmp_path: Path) -> Commands:
    for name, text in FILES.items():
        (tmp_path / name).write_text(text)
    return Commands(kafka, tmp_path, environment(tmp_path))


def facts(items: list[dict[str, Any]]) -> list[tuple[str, str, str]]:
    return [(item["resource"], item["operation"], item["permission"]) for item in items]


@pytest.mark.slow
def test_entries_are_added_listed_and_removed(run: Commands) -> None:
    add = ("acls", "add", *ALICE, "--deny", "User:eve", *READ, "--operation", "write", "--topic", "orders")
    dry = run(*add, "--dry-run")
    assert (dry.document["dry_run"], [item["added"] for item in dry.items]) == (True, [False] * 4)
    assert run("acls", "list", "--topic", "orders").items == []
    assert [item["added"] for item in run(*add).items] == [True] * 4
    listed = run.until(lambda items: len(items) == 4, "acls", "list", "--topic", "orders")
    both = [(operation, permission) for permission in ("ALLOW", "DENY") for operation in ("READ", "WRITE")]
    assert facts(listed) == [("orders", *each) for each in both]
    assert [item["added"] for item in run(*add).items] == [False] * 4
    remove = ("acls", "remove", "--deny", "User:eve", *READ, "--topic", "orders")
    dry = run(*remove, "--dry-run")
    assert (facts(dry.items), [item["removed"] for item in dry.items]) == ([("orders", "READ", "DENY")], [False])
    assert "Remove DENY READ on TOPIC orders for User:eve? There is no terminal to ask" in run(*remove, code=2).stderr
    assert [item["removed"] for item in run(*remove, "--yes").items] == [True]
    run.until(lambda items: len(items) == 3, "acls", "list", "--topic", "orders")
    run("acls", "remove", "--topic", "orders", "--yes")
    run.until(lambda items: items == [], "acls", "list", "--topic", "orders")


@pytest.mark.slow
def test_patterns_find_names_and_all_entries_that_apply_to_a_name(run: Commands) -> None:
    run("acls", "add", *ALICE, *READ, "--topic", "pay", "--pattern", "prefixed")
    run("acls", "add", *ALICE, *READ, "--topic", "payments", "--topic", "*")
    run.until(lambda items: len(items) == 3, "acls", "list", "--principal", "User:alice")
    found = [item["resource"] for item in run("acls", "list", "--topic", "payments", "--pattern", "match").items]
    assert sorted(found) == ["*", "pay", "payments"]
    assert facts(run("acls", "list", "--topic", "payments").items) == [("payments", "READ", "ALLOW")]
    assert run("acls", "list", "--topic", "pay", "--pattern", "literal").items == []
    assert run("acls", "list", "--permission", "deny", "--topic", "pay").items == []
    run("acls", "remove", "--principal", "User:alice", "--yes")
    run.until(lambda items: items == [], "acls", "list")


@pytest.mark.slow
def test_roles_get_their_entries_and_lose_them_again(run: Commands) -> None:
    role = ("--allow", "User:app", "--producer", "--topic", "made", "--transactional-id", "made")
    run("acls", "add", *role)
    listed = run.until(lambda items: len(items) == 5, "acls", "list", "--principal", "User:app")
    assert {(item["resource_type"], item["operation"]) for item in listed} == {
        ("TOPIC", "WRITE"), ("TOPIC", "DESCRIBE"), ("TOPIC", "CREATE"),
        ("TRANSACTIONAL_ID", "WRITE"), ("TRANSACTIONAL_ID", "DESCRIBE"),
    }  # fmt: skip
    run("acls", "add", "--allow", "User:app", "--consumer", "--topic", "made", "--group", "made")
    run.until(lambda items: len(items) == 7, "acls", "list", "--principal", "User:app")
    assert len(run("acls", "remove", *role, "--yes").items) == 5
    run("acls", "remove", "--principal", "User:app", "--yes")
    run.until(lambda items: items == [], "acls", "list", "--principal", "User:app")


@pytest.mark.slow
def test_a_removal_asks_on_a_terminal(run: Commands) -> None:
    run("acls", "add", *ALICE, *READ, "--topic", "asked")
    run.until(lambda items: len(items) == 1, "acls", "list", "--topic", "asked")
    words = run.arguments("acls", "remove", "--topic", "asked")
    ended = ottla_on_a_terminal(*words, typed=[("? [y/N]", "n\n")], env=run.env)
    assert (ended.code, "nothing was changed" in ended.stdout) == (1, True), ended
    assert len(run("acls", "list", "--topic", "asked").items) == 1
    ended = ottla_on_a_terminal(*words, typed=[("? [y/N]", "y\n")], env=run.env)
    assert ended.code == 0, ended
    run.until(lambda items: items == [], "acls", "list", "--topic", "asked")


@pytest.mark.slow
def test_a_missing_permission_and_a_wrong_password_are_errors(run: Commands) -> None:
    denied = run("acls", "list", user="alice", code=1)
    assert denied.document["error"]["code"] == "CLUSTER_AUTHORIZATION_FAILED"
    wrong = run("acls", "list", user="wrong", code=1)
    assert wrong.document["error"]["code"] == "Authentication"
    assert "Invalid username or password" in wrong.stderr


@pytest.mark.slow
def test_a_token_is_created_used_renewed_and_expires(run: Commands) -> None:
    (made,) = run("tokens", "create", "--renewer", "User:bob", "--lifetime", "2h").items
    assert (made["owner"], made["requester"], made["renewers"]) == ("User:admin", "User:admin", ["User:bob"])
    assert made["max_timestamp"] - made["issue_timestamp"] == 7_200_000
    (listed,) = run.until(bool, "tokens", "list", "--owner", "User:admin")
    assert (listed["token_id"], "hmac" in listed) == (made["token_id"], False)
    hmac = made["hmac"]
    assert len(base64.b64decode(hmac)) == 64
    login = (
        f"org.apache.kafka.common.security.scram.ScramLoginModule required username={made['token_id']} "
        f'password="{hmac}" tokenauth=true;'
    )
    properties = "security.protocol=SASL_PLAINTEXT\nsasl.mechanism=SCRAM-SHA-256\nsasl.jaas.config="
    (run.home / "token.properties").write_text(f"{properties}{login}\n")
    # A client with a token has the owner's permissions (a super user's), but cannot request tokens.
    assert run("acls", "list", user="token").items == []
    refused = run("tokens", "list", user="token", code=1)
    assert refused.document["error"]["code"] == "DELEGATION_TOKEN_REQUEST_NOT_ALLOWED"
    (run.home / "hmac").write_text(f"{hmac}\n")
    (renewed,) = run("tokens", "renew", "--for", "1h", "--hmac-file", str(run.home / "hmac")).items
    assert renewed["expiry_timestamp"] <= made["max_timestamp"]
    assert "There is no terminal to ask" in run("tokens", "expire", "--hmac-env", "HMAC", code=2, HMAC=hmac).stderr
    run("tokens", "expire", "--hmac-env", "HMAC", "--yes", HMAC=hmac)
    run.until(lambda items: items == [], "tokens", "list", "--owner", "User:admin")
    unknown = run("tokens", "renew", "--hmac-env", "HMAC", code=1, HMAC=hmac)
    assert unknown.document["error"]["code"] == "DELEGATION_TOKEN_NOT_FOUND"
    assert hmac not in unknown.stderr + unknown.stdout


@pytest.mark.slow
def test_the_hmac_is_typed_at_a_hidden_prompt(run: Commands) -> None:
    (made,) = run("tokens", "create").items
    words = run.arguments("tokens", "expire", "--in", "1h")
    typed = [("HMAC of the token:", f"{made['hmac']}\n"), ("? [y/N]", "y\n")]
    ended = ottla_on_a_terminal(*words, typed=typed, env=run.env)
    assert (ended.code, made["hmac"] in ended.stdout) == (0, False), ended
