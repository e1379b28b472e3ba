"""`ottla users`: the sources of passwords, and refusals before the first request."""

from pathlib import Path

import pytest
from click.testing import CliRunner

from ottla.scripts.users import users
from tests.scripts.running import environment, ottla_on_a_terminal

NOBODY = ("-b", "127.0.0.1:1")


@pytest.mark.parametrize(
    ("arguments", "reason"),
    [
        (["add", "alice"], "there is no terminal"),
        (["add", "alice", "--password-env", "OTTLA_NO_SUCH_VARIABLE"], "OTTLA_NO_SUCH_VARIABLE"),
        (["add", "alice", "--password-env", "EMPTY"], "the password is empty"),
        (["add", "alice", "--password-env", "EMPTY", "--password-file", __file__], "exclude each other"),
        (["add", "alice", "--password-env", "EMPTY", "--iterations", "4095"], "4095"),
        (["add", "alice", "--password-env", "EMPTY", "--mechanism", "SCRAM-SHA-1"], "SCRAM-SHA-1"),
        (["add", "alice", "--password", "secret"], "--password"),
        (["delete"], "USER"),
    ],
)
def test_wrong_usage_is_refused(arguments: list[str], reason: str) -> None:
    ended = CliRunner().invoke(users, [*arguments, *NOBODY], env={"EMPTY": ""})
    assert (ended.exit_code, reason in ended.output) == (2, True), ended.output


@pytest.mark.slow
def test_a_password_is_prompted_twice_and_not_shown(tmp_path: Path) -> None:
    typed = [("Password:", "hush\n"), ("Repeat for confirmation:", "hush\n")]
    ended = ottla_on_a_terminal("users", "add", "alice", *NOBODY, typed=typed, env=environment(tmp_path))
    assert "hush" not in ended.stdout
    # The command accepted both passwords, and failed at the connection.
    assert (ended.code, "127.0.0.1:1" in ended.stdout) == (1, True), ended
