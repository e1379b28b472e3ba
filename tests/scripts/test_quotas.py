"""`ottla quotas`: parsing entities and values, and refusals before the first request."""

import json

import click
import pytest
from click.testing import CliRunner

from ottla.client.admin.quotas import CLIENT_ID, IP, USER, Entity, Part
from ottla.scripts.quotas import differences, quotas, read_quotas

ALICE: Entity = frozenset({Part(USER, "alice")})
EVERYBODY: Entity = frozenset({Part(USER, None), Part(CLIENT_ID, "app")})
HOST: Entity = frozenset({Part(IP, "10.0.0.1")})


def document(*items: object) -> str:
    return json.dumps({"schema": 1, "items": items})


def test_a_document_has_names_defaults_and_unset_parts() -> None:
    found = read_quotas(
        document(
            {"user": "alice", "client_id": None, "producer_byte_rate": 5.0, "consumer_byte_rate": None},
            {"user": "<default>", "client_id": "app", "request_percentage": 1},
            {"ip": "10.0.0.1"},
        )
    )
    assert found == {ALICE: {"producer_byte_rate": 5.0}, EVERYBODY: {"request_percentage": 1.0}, HOST: {}}


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("{", "not JSON"),
        ("[]", "is not the output of"),
        (json.dumps({"schema": 2, "items": []}), "is not the output of"),
        (document({"producer_byte_rate": 5}), "lacks user"),
        (document({"user": "a", "bogus_rate": 5}), "bogus_rate"),
        (document({"user": "a", "producer_byte_rate": "many"}), "a number"),
    ],
)
def test_an_invalid_document_of_quotas_is_refused(text: str, reason: str) -> None:
    with pytest.raises(click.UsageError, match=reason):
        read_quotas(text)


def test_only_differences_are_applied_and_other_entities_stay_unchanged() -> None:
    current = {ALICE: {"producer_byte_rate": 5.0, "consumer_byte_rate": 6.0}, HOST: {"connection_creation_rate": 1.0}}
    wanted = {ALICE: {"producer_byte_rate": 5.0, "request_percentage": 7.0}, EVERYBODY: {"request_percentage": 8.0}}
    assert differences(current, wanted) == {
        ALICE: {"request_percentage": 7.0, "consumer_byte_rate": None},
        EVERYBODY: {"request_percentage": 8.0},
    }


@pytest.mark.parametrize(
    ("arguments", "reason"),
    [
        (["set", "producer_byte_rate=1"], "name an entity"),
        (["set", "--user", "a", "--user-default", "producer_byte_rate=1"], "exclude each other"),
        (["set", "--user", "a", "--ip", "10.0.0.1", "producer_byte_rate=1"], "--ip excludes"),
        (["set", "--user", "a", "bogus=1"], "there is no quota bogus"),
        (["set", "--user", "a", "producer_byte_rate=many"], "a quota is a number"),
        (["set", "--user", "a", "producer_byte_rate"], "KEY=VALUE"),
        (["unset", "--user", "a", "bogus"], "there is no quota bogus"),
    ],
)
def test_wrong_usage_is_refused(arguments: list[str], reason: str) -> None:
    ended = CliRunner().invoke(quotas, [*arguments, "-b", "127.0.0.1:1"])
    assert (ended.exit_code, reason in ended.output) == (2, True), ended.output
