"""Rows about TLS, SASL, ACLs and delegation tokens."""

from functools import partial

from compat_tests.compatibility.features.administration import NO_SECURITY
from compat_tests.compatibility.features.declaring import Feature
from compat_tests.compatibility.features.producing import values
from compat_tests.compatibility.settings import PASSWORD
from compat_tests.compatibility.trials import Trial, expect

TOPIC_AUTHORIZATION_FAILED = 29


def write_and_read(connection: str, trial: Trial) -> None:
    trial.create_topic()
    if connection.startswith("SCRAM"):
        trial.add_scram_user("alice", connection, PASSWORD)
    trial.connect(connection)
    trial.fill("a")
    expect(values(trial, 1), ["a"])


def wrong_password(trial: Trial) -> None:
    trial.create_topic()
    trial.connect("PLAIN", password="another")
    trial.refusal("produce", topic=trial.topic, records=[{"value": "v"}])


def denied(trial: Trial) -> None:
    trial.create_topic()
    trial.deny_writing("alice")
    trial.connect("PLAIN")
    refused = trial.refusal("produce", topic=trial.topic, records=[{"value": "v"}])
    if refused.code is not None:
        expect(refused.code, TOPIC_AUTHORIZATION_FAILED)


def tokens(trial: Trial) -> None:
    trial.connect("PLAIN")
    made = trial.ask("create_token")
    trial.wait_until(lambda: made in trial.ask("tokens"), True)


def row(name: str, scenario: object) -> Feature:
    return Feature(name, scenario, setting="secured", unsupported=NO_SECURITY)  # type: ignore[arg-type]


CONNECTIONS = {
    "TLS": "SSL",
    **{f"SASL {each}": each for each in ("PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512", "OAUTHBEARER")},
    "SASL PLAIN over TLS": "SASL_SSL",
}
ROWS = [
    *[row(name, partial(write_and_read, connection)) for name, connection in CONNECTIONS.items()],
    row("a wrong password is refused", wrong_password),
    row("an ACL denies a user's writes", denied),
    row("delegation tokens: create, describe", tokens),
]
