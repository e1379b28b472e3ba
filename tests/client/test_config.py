"""Kafka's client properties: parsing, refusals, and the sources of secrets."""

from pathlib import Path

import pytest

from ottla.client.config import ClientConfig, read_properties
from ottla.wire.config_def import ConfigError


def test_a_key_that_is_not_given_has_kafkas_default() -> None:
    config = ClientConfig({})
    assert config["request.timeout.ms"] == 30_000
    assert config.seconds("default.api.timeout.ms") == 60.0
    assert not config.uses_tls
    assert not config.uses_sasl


@pytest.mark.parametrize(
    ("protocol", "tls", "sasl"),
    [("PLAINTEXT", False, False), ("SSL", True, False), ("SASL_PLAINTEXT", False, True), ("SASL_SSL", True, True)],
)
def test_the_protocol_decides_on_tls_and_sasl(protocol: str, tls: bool, sasl: bool) -> None:
    config = ClientConfig({"security.protocol": protocol})
    assert (config.uses_tls, config.uses_sasl) == (tls, sasl)


@pytest.mark.parametrize(
    ("key", "value"),
    [("security.protocol", "TLS"), ("request.timeout.ms", "soon"), ("retry.backoff.ms", "-1"), ("acks", "2")],
)
def test_a_bad_value_is_refused_with_its_key(key: str, value: str) -> None:
    with pytest.raises(ConfigError, match=key):
        ClientConfig({key: value})


def test_a_key_of_another_kind_of_client_is_ignored() -> None:
    assert ClientConfig({"some.plugin.key": "x"})["client.id"] == "ottla"


def test_a_file_names_its_secrets_elsewhere(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "password").write_text("pencil\n")
    (tmp_path / "secrets.properties").write_text("user = alice\n")
    monkeypatch.setenv("THE_PROTOCOL", "SASL_SSL")
    file = tmp_path / "client.properties"
    file.write_text(
        "security.protocol=${env:THE_PROTOCOL}\n"
        f'sasl.jaas.config=m required username="${{file:{tmp_path}/secrets.properties:user}}" '
        f'password="${{file:{tmp_path}/password}}";\n'
    )
    assert read_properties(file) == {
        "security.protocol": "SASL_SSL",
        "sasl.jaas.config": 'm required username="alice" password="pencil";',
    }


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("a=${env:NOT_THERE_AT_ALL}", "NOT_THERE_AT_ALL"),
        ("a=${file:/not/there}", "/not/there"),
        ("a=${vault:x}", "no config provider 'vault'"),
    ],
)
def test_a_secret_that_cannot_be_read_is_an_error_that_names_the_key(tmp_path: Path, text: str, reason: str) -> None:
    (tmp_path / "client.properties").write_text(text)
    with pytest.raises(ConfigError, match=reason) as raised:
        read_properties(tmp_path / "client.properties")
    assert str(raised.value).startswith("a:")


def test_a_missing_file_is_named(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="nowhere"):
        read_properties(tmp_path / "nowhere")
