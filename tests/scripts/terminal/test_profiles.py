"""Named clusters in a file, and the sources of their secrets."""

from pathlib import Path

import click
import pytest

from ottla.client.config import ClientConfig
from ottla.client.sasl import Mechanism
from ottla.client.security import read_security
from ottla.scripts.terminal.profiles import cache_folder, profiles_file, read_profile, state_folder
from ottla.scripts.terminal.session import Reach
from ottla.wire.config_def import ConfigError

FILE = """
default = "local"

[local]
"bootstrap.servers" = ["localhost:9092", "localhost:9093"]

[staging]
"bootstrap.servers" = "kafka-1.staging:9093"
"security.protocol" = "SASL_PLAINTEXT"
"sasl.mechanism" = "SCRAM-SHA-512"
"enable.auto.commit" = false
username = 'al"ice'
password = { env = "STAGING_PASSWORD" }
"""


def mechanism_of(properties: dict[str, str]) -> Mechanism:
    begin = read_security(ClientConfig({"security.protocol": "SASL_PLAINTEXT", **properties})).mechanism
    assert begin is not None
    return begin()


@pytest.fixture
def environment(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> dict[str, str]:
    environment = {"XDG_CONFIG_HOME": str(tmp_path)}
    profiles_file(environment).parent.mkdir()
    profiles_file(environment).write_text(FILE)
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path))
    monkeypatch.setenv("STAGING_PASSWORD", "pen\\cil")
    return environment


def test_the_default_profile_applies_if_none_is_given(environment: dict[str, str]) -> None:
    assert read_profile(None, environment) == {"bootstrap.servers": "localhost:9092,localhost:9093"}


def test_the_environment_names_another_default(environment: dict[str, str]) -> None:
    found = read_profile(None, {**environment, "OTTLA_PROFILE": "staging"})
    assert found["bootstrap.servers"] == "kafka-1.staging:9093"


def test_user_and_password_become_a_login_module(environment: dict[str, str]) -> None:
    properties = read_profile("staging", environment)
    assert "password" not in properties
    assert properties["enable.auto.commit"] == "false"
    mechanism = mechanism_of(properties)
    assert b'n=al"ice' in mechanism.first()


def test_a_misspelt_profile_is_refused_with_a_suggestion(environment: dict[str, str]) -> None:
    with pytest.raises(ConfigError, match="did you mean staging"):
        read_profile("stagin", environment)


def test_without_a_file_there_is_no_profile(tmp_path: Path) -> None:
    environment = {"XDG_CONFIG_HOME": str(tmp_path)}
    assert read_profile(None, environment) == {}
    with pytest.raises(ConfigError, match=r"there is no profile staging: .* does not exist"):
        read_profile("staging", environment)


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("[a", "profiles.toml"),
        ('[a]\npassword = { env = "NOT_THERE_AT_ALL" }\nusername = "x"', "NOT_THERE_AT_ALL"),
        ('[a]\npassword = { file = "/not/there" }\nusername = "x"', "/not/there"),
        ('[a]\npassword = { vault = "x" }\nusername = "x"', "for a secret"),
        ('[a]\nusername = "x"', "need each other"),
    ],
)
def test_the_error_of_an_invalid_profile_has_the_reason(environment: dict[str, str], text: str, reason: str) -> None:
    profiles_file(environment).write_text(text)
    with pytest.raises(ConfigError, match=reason):
        read_profile("a", environment)


def test_the_terminal_prompts_for_a_password(environment: dict[str, str], monkeypatch: pytest.MonkeyPatch) -> None:
    profiles_file(environment).write_text(
        '[a]\nusername = "x"\npassword = { prompt = true }\n"sasl.mechanism" = "PLAIN"'
    )
    monkeypatch.setattr(click, "prompt", lambda *_, **__: "typed")
    assert mechanism_of(read_profile("a", environment)).first() == b"\0x\0typed"


def test_an_option_overrides_a_file_which_overrides_a_profile(environment: dict[str, str], tmp_path: Path) -> None:
    file = tmp_path / "client.properties"
    file.write_text("bootstrap.servers=file:1\nclient.id=mine\n")
    assert Reach(None, "staging", None).config()["bootstrap.servers"] == ("kafka-1.staging:9093",)
    config = Reach(None, "staging", file).config()
    assert config["bootstrap.servers"] == ("file:1",)
    assert config["client.id"] == "mine"
    assert Reach("option:1", "staging", file).config()["bootstrap.servers"] == ("option:1",)
    assert Reach("option:1", timeout_seconds=1.5).config()["default.api.timeout.ms"] == 1500


def test_files_are_in_the_xdg_folders() -> None:
    environment = {"XDG_STATE_HOME": "/s", "XDG_CACHE_HOME": "/c"}
    assert state_folder(environment) == Path("/s/ottla")
    assert cache_folder(environment) == Path("/c/ottla")
    assert state_folder({}) == Path.home() / ".local/state/ottla"
