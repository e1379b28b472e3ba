"""Every failed command prints one line with the reason, a document if `--output` names one, and ends with a code.

The failures: wrong usage, an unreachable broker, a missing object, a missing permission. `test_broken_off_commands` has
brokers that die and Ctrl-C, `test_groups` the undo of a failed reset.
"""

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import NamedTuple

import pytest

from tests.scripts.every.denying_broker import NOBODY, denying
from tests.scripts.every.every_command import CASES, Prepared, commands, flags, prepared
from tests.scripts.running import Ended, environment, error_of, ottla_here

COMMANDS = commands()
ASKING = [words for words, case in CASES.items() if not case.asks_nobody]
NOBODY_THERE = "127.0.0.1:1"


# Wrong usage


@pytest.mark.parametrize("words", COMMANDS)
def test_an_unknown_flag_is_wrong_usage(words: str) -> None:
    ended = ottla_here(*words.split(), "--xyzzy")
    assert (ended.code, ended.stdout) == (2, "")
    assert ended.stderr == f"ottla: No such option '--xyzzy'. See `ottla {words} --help`.\n"
    for flag in ("-ojson", "--output=json"):
        document = ottla_here(*words.split(), "--xyzzy", flag)
        assert (document.code, error_of(document)["code"]) == (2, "Usage")
        assert document.document["command"] == words
        assert ("dry_run" in document.document) == ("--dry-run" in flags(COMMANDS[words]))


@pytest.mark.parametrize(
    ("arguments", "line"),
    [
        ("topics frob", "No such command 'frob'. See `ottla topics --help`."),
        ("topics lst", "No such command 'lst'. Did you mean 'list'? See `ottla topics --help`."),
        ("topics create", "Missing argument 'TOPIC...'. See `ottla topics create --help`."),
        ("topics create t -c x", "--config x: use KEY=VALUE. See `ottla topics create --help`."),
        ("topics list -b nowhere", "bootstrap.servers: 'nowhere' is not HOST:PORT"),
        ("reassign start FILE", "FILE: the file is not UTF-8. See `ottla reassign start --help`."),
        ("quotas apply FILE", "FILE: the file is not UTF-8. See `ottla quotas apply --help`."),
        ("apply FILE", "FILE: the file is not UTF-8. See `ottla apply --help`."),
        ("diff --with-file FILE", "FILE: the file is not UTF-8. See `ottla diff --help`."),
        ("users add bob --password-file FILE", "FILE: the file is not UTF-8. See `ottla users add --help`."),
        ("tokens renew --hmac-file FILE", "FILE: the file is not UTF-8. See `ottla tokens renew --help`."),
        (
            "perf produce t --property sasl.jaas.config=x",
            "--property sasl.jaas.config: it is a secret, but other users can see command lines: give it by "
            "--command-config. See `ottla perf produce --help`.",
        ),
    ],
)
def test_the_error_of_a_command_line_is_one_line(tmp_path: Path, arguments: str, line: str) -> None:
    file = tmp_path / "file"
    file.write_bytes(b"\xff\xfe")
    words = arguments.replace("FILE", str(file)).split()
    ended = ottla_here(*words, "-o", "json", env=environment(tmp_path))
    assert (ended.code, ended.stderr) == (2, f"ottla: {line}\n".replace("FILE", str(file)))
    assert error_of(ended)["message"] in ended.stderr


def test_an_invalid_schema_is_wrong_usage(tmp_path: Path) -> None:
    schema = tmp_path / "schema"
    schema.write_text("{")
    ended = ottla_here("consume", "t", "--decode", "avro", "--schema", str(schema))
    assert (ended.code, ended.stderr.count("\n"), str(schema) in ended.stderr) == (2, 1, True)


# Unreachable brokers


@pytest.fixture(scope="module")
def on(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Prepared]:
    with prepared(tmp_path_factory.mktemp("home")) as found:
        found.write("wrong", "bm9ib2R5cw==")
        yield found


@pytest.mark.slow
@pytest.mark.parametrize("words", ASKING)
def test_an_unreachable_broker_is_named(on: Prepared, words: str) -> None:
    ended = on.run(words, CASES[words].arguments, "-o", "json", bootstrap=NOBODY_THERE)
    line, hint = ended.stderr.splitlines()[-2:]
    assert (ended.code, line) == (1, f"ottla: {NOBODY_THERE}: Connection refused")
    assert hint.startswith("ottla: Is a broker running there")
    error = error_of(ended)
    assert (error["code"], error["message"]) == ("ConnectionFailed", f"{NOBODY_THERE}: Connection refused")
    assert ended.document["command"] == words
    assert ended.document.get("dry_run", False) == ("--dry-run" in CASES[words].arguments)


@pytest.mark.slow
def test_watching_is_refused_with_a_document(on: Prepared) -> None:
    for words in ("groups lag", "groups describe"):
        ended = on.run(words, "billing --watch", "-o", "json")
        assert (ended.code, error_of(ended)["code"]) == (2, "Usage")
        assert "use ndjson" in ended.stderr


# Missing objects


class Missing(NamedTuple):
    """Arguments with the name of a missing object, and the error of the item or of the whole command."""

    arguments: str
    error: str
    names: str = "gone"
    """The name that the error must contain."""


NO_TOPIC, NOT_FOUND = "UNKNOWN_TOPIC_OR_PARTITION", "RESOURCE_NOT_FOUND"
NO_BROKER, NO_FEATURE, NO_TOKEN = "BROKER_NOT_AVAILABLE", "INVALID_UPDATE_VERSION", "DELEGATION_TOKEN_NOT_FOUND"
MISSING = {
    "client-metrics delete": Missing("gone --yes", NOT_FOUND),
    "client-metrics describe": Missing("gone", NOT_FOUND),
    "cluster unregister": Missing("99 --yes", "BROKER_ID_NOT_REGISTERED", "99"),
    "configs append": Missing("topic/gone cleanup.policy=compact", NO_TOPIC),
    "configs describe": Missing("topic/gone", NO_TOPIC),
    "configs diff": Missing("topic/gone topic/orders", NO_TOPIC),
    "configs set": Missing("topic/gone retention.ms=1", NO_TOPIC),
    "configs subtract": Missing("topic/gone cleanup.policy=compact", NO_TOPIC),
    "configs unset": Missing("topic/gone retention.ms", NO_TOPIC),
    "consume": Missing("gone --exit-at-end", NO_TOPIC),
    "copy": Missing("gone --as written", NO_TOPIC),
    "delete-records": Missing("gone --before latest --yes", NO_TOPIC),
    "elect-leaders": Missing("gone", NO_TOPIC),
    "features downgrade": Missing("gone.version=0", NO_FEATURE, "gone.version"),
    "features upgrade": Missing("gone.version=1", NO_FEATURE, "gone.version"),
    "groups delete": Missing("gone --yes", "GROUP_ID_NOT_FOUND"),
    "groups delete-offsets": Missing("gone --topic orders --yes", NOT_FOUND),
    "groups describe": Missing("gone", "GROUP_ID_NOT_FOUND"),
    "groups lag": Missing("gone", "GROUP_ID_NOT_FOUND"),
    "groups reset": Missing("gone --to-latest --yes", NOT_FOUND),
    "log-dirs": Missing("--brokers 99", NO_BROKER, "99"),
    "loggers list": Missing("99", NO_BROKER, "99"),
    "loggers set": Missing("99 root=INFO", NO_BROKER, "99"),
    "loggers unset": Missing("99 root", NO_BROKER, "99"),
    "offsets": Missing("gone", NO_TOPIC),
    "perf consume": Missing("gone", NO_TOPIC),
    "perf latency": Missing("gone", NO_TOPIC),
    "perf produce": Missing("gone", NO_TOPIC),
    # A producer waits for the topic, because the first record may create it.
    "produce": Missing("gone {lines.txt} --timeout 2", "OperationTimedOut"),
    "reassign plan": Missing("gone", NO_TOPIC),
    "reassign start": Missing("{plan.json} --yes", NO_TOPIC),
    "tokens expire": Missing("--hmac-file {wrong} --yes", NO_TOKEN, "TOKEN"),
    "tokens renew": Missing("--hmac-file {wrong}", NO_TOKEN, "TOKEN"),
    "topics alter": Missing("gone --partitions 9", NO_TOPIC),
    "topics create": Missing("more --like gone", NO_TOPIC),
    "topics delete": Missing("gone --yes", NO_TOPIC),
    "topics describe": Missing("gone", NO_TOPIC),
    "topics export": Missing("gone", NO_TOPIC),
    "transactions abort": Missing("gone:0 0 --yes", NO_TOPIC),
    "transactions describe": Missing("gone", "TRANSACTIONAL_ID_NOT_FOUND"),
    "transactions find-hanging": Missing("gone", NO_TOPIC),
    "transactions producers": Missing("gone", NO_TOPIC),
    "transactions terminate": Missing("gone --yes", "TRANSACTIONAL_ID_NOT_FOUND"),
    "users delete": Missing("gone --yes", NOT_FOUND),
    "users list": Missing("gone", NOT_FOUND),
    "verifiable-consumer": Missing("gone --group verifiers", NO_TOPIC),
    "verifiable-producer": Missing("gone --max 1", NO_TOPIC),
}
# These commands choose existing objects, create missing ones, or have no name.
WITHOUT_NAMES = {
    *("acls add", "acls list", "acls remove", "api-versions", "apply", "client-metrics list", "client-metrics set"),
    *("cluster brokers", "cluster id", "diff", "features list", "groups list", "groups undo", "quotas apply"),
    *("quotas list", "quotas set", "quotas unset", "reassign cancel", "reassign list", "reassign watch"),
    *("tokens create", "tokens list", "topics list", "transactions list", "users add"),
}


def test_each_command_with_a_name_has_a_case_with_a_missing_name() -> None:
    assert {*MISSING, *WITHOUT_NAMES} == set(ASKING)
    assert not MISSING.keys() & WITHOUT_NAMES


def failures(ended: Ended) -> set[str | None]:
    """Return the errors of the items, and of the whole command."""
    document = ended.document
    whole = document["error"]
    return {item.get("error") for item in document["items"]} | ({whole["code"]} if whole else set())


@pytest.mark.slow
@pytest.mark.parametrize("words", MISSING)
def test_the_failure_for_a_missing_object_names_it(on: Prepared, words: str) -> None:
    arguments, error, names = MISSING[words]
    ended = on.run(words, arguments, "-o", "json")
    assert (ended.code, failures(ended)) == (1, {error})
    assert names in ended.stdout
    assert "Traceback" not in ended.stderr


# No permission

CLUSTER, TOPIC, GROUP = (f"{each}_AUTHORIZATION_FAILED" for each in ("CLUSTER", "TOPIC", "GROUP"))
TRANSACTION, OWNER = "TRANSACTIONAL_ID_AUTHORIZATION_FAILED", "DELEGATION_TOKEN_OWNER_MISMATCH"
DENIED = {
    **{f"acls {each}": CLUSTER for each in ("add", "list", "remove")},
    "apply": TOPIC,
    **{f"client-metrics {each}": CLUSTER for each in ("delete", "describe", "list", "set")},
    "cluster unregister": CLUSTER,
    **{f"configs {each}": TOPIC for each in ("append", "describe", "diff", "set", "subtract", "unset")},
    **dict.fromkeys(("consume", "copy", "delete-records", "elect-leaders"), TOPIC),
    **{f"features {each}": CLUSTER for each in ("downgrade", "upgrade")},
    **{f"groups {each}": GROUP for each in ("delete", "delete-offsets", "describe", "lag", "reset", "undo")},
    **{f"loggers {each}": CLUSTER for each in ("list", "set", "unset")},
    "log-dirs": CLUSTER,
    "offsets": TOPIC,
    **{f"perf {each}": TOPIC for each in ("consume", "latency", "produce")},
    # A producer first requests an id, which needs no topic.
    "produce": CLUSTER,
    **{f"quotas {each}": CLUSTER for each in ("apply", "list", "set", "unset")},
    **{f"reassign {each}": CLUSTER for each in ("cancel", "list", "start", "watch")},
    "reassign plan": TOPIC,
    **{f"tokens {each}": OWNER for each in ("expire", "renew")},
    **{f"topics {each}": TOPIC for each in ("alter", "create", "delete", "describe", "export")},
    "transactions abort": TOPIC,
    "transactions producers": TOPIC,
    **{f"transactions {each}": TRANSACTION for each in ("describe", "terminate")},
    **{f"users {each}": CLUSTER for each in ("add", "delete", "list")},
    **{f"verifiable-{each}": TOPIC for each in ("consumer", "producer")},
}
# All users may call these commands, and see the objects that they may describe.
FOR_EVERYBODY = {
    *("api-versions", "cluster brokers", "cluster id", "diff", "features list", "groups list", "tokens create"),
    *("tokens list", "topics list", "transactions find-hanging", "transactions list"),
}
# A dry run asks for less. Of users, Apache Kafka has no answer to who may not list all.
DENIED_ARGUMENTS = {"cluster unregister": "1 --yes", "tokens expire": "--hmac-file {hmac} --yes", "users list": "bob"}


def test_every_command_needs_a_permission_or_is_for_all_users() -> None:
    assert {*DENIED, *FOR_EVERYBODY} == set(ASKING)
    assert not DENIED.keys() & FOR_EVERYBODY


@pytest.mark.slow
@pytest.mark.parametrize("words", DENIED)
def test_a_user_without_permission_gets_the_missing_permission(on: Prepared, words: str) -> None:
    ended = on.run(words, DENIED_ARGUMENTS.get(words, CASES[words].arguments), "-o", "json", user="alice")
    assert (ended.code, failures(ended)) == (1, {DENIED[words]})
    assert "Request(" not in ended.stdout + ended.stderr
    assert "Traceback" not in ended.stderr


@pytest.mark.slow
@pytest.mark.parametrize("words", sorted(FOR_EVERYBODY))
def test_commands_for_all_users_are_not_denied(on: Prepared, words: str) -> None:
    ended = on.run(words, CASES[words].arguments, "-o", "json", user="alice")
    assert (ended.code, failures(ended) - {None}) == (CASES[words].code, set())


@pytest.fixture(scope="module")
def denied(on: Prepared, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Callable[[str], Ended]]:
    """Return a function that runs a command as the client that Ottla's authorizer denies everything."""
    (on.folder / "nobody.properties").write_text(f"client.id={NOBODY}\n")
    (on.folder / "somebody.properties").write_text("client.id=somebody\n")
    with denying(tmp_path_factory.mktemp("data")) as bootstrap:
        for words, arguments in (
            ("topics create", "orders sold written"),
            ("produce", "orders {lines.txt}"),
            ("consume", "orders --exit-at-end --group billing"),
            ("groups reset", "billing --to-earliest --yes -o json"),
        ):
            made = on.run(words, arguments, user="somebody", bootstrap=bootstrap)
            assert made.code == 0, made
        (undo,) = {item["undo"] for item in made.items} - {None}

        def run(words: str) -> Ended:
            arguments = DENIED_ARGUMENTS.get(words, CASES[words].arguments).replace("{undo}", undo)
            return on.run(words, arguments, "-o", "json", user="nobody", bootstrap=bootstrap)

        yield run


@pytest.mark.slow
@pytest.mark.parametrize("words", DENIED)
def test_ottla_denies_the_same_commands_as_kafka(denied: Callable[[str], Ended], words: str) -> None:
    ended = denied(words)
    # For requests that Ottla lacks, the error names the request.
    lacks = failures(ended) == {"UnsupportedRequest"} and "does not offer" in ended.stderr
    assert (ended.code, lacks or failures(ended) == {DENIED[words]}) == (1, True), ended
    assert "Traceback" not in ended.stderr
