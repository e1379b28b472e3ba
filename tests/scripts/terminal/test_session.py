"""The end of a command: codes, one document also after an error, questions before a deletion, and a closed pipe."""

import json
import os
import signal
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from ottla import Broker
from tests.scripts.running import COMMAND, PATIENCE_S, environment, ottla, ottla_on_a_terminal

pytestmark = pytest.mark.slow
NOBODY = "127.0.0.1:1"


@pytest.fixture(scope="module")
def broker() -> Iterator[Broker]:
    with Broker() as running:
        running.create_topic("orders", partitions=3)
        yield running


@pytest.fixture
def env(tmp_path: Path) -> dict[str, str]:
    return environment(tmp_path)


def test_a_pipe_gets_rows_and_a_terminal_a_table(broker: Broker, env: dict[str, str]) -> None:
    where = ("-b", broker.bootstrap)
    assert ottla("topics", "list", *where, env=env).rows[0][:2] == ["orders", "3"]
    shown = ottla_on_a_terminal("topics", "list", *where, env={**env, "NO_COLOR": "1"}).stdout
    assert shown.splitlines()[0].split() == ["TOPIC", "PARTITIONS", "REPLICATION-FACTOR", "INTERNAL", "TOPIC-ID"]


def test_an_unreachable_broker_is_a_failure_with_a_document_and_a_hint(env: dict[str, str]) -> None:
    ended = ottla("topics", "list", "-b", NOBODY, "-o", "json", env=env)
    assert ended.code == 1
    assert ended.document["error"]["code"] == "ConnectionFailed"
    assert "Connection refused" in ended.stderr
    assert "listeners" in ended.stderr


@pytest.mark.parametrize(
    "arguments",
    [
        ["topics", "list", "--frob"],
        ["topics", "frob"],
        ["topics", "list", "-o", "xml"],
        ["topics", "list", "-b", "nowhere"],
        ["topics", "list", "--profile", "missing"],
        ["topics", "create"],
        ["topics", "create", "t", "--config", "novalue"],
    ],
)
def test_wrong_usage_ends_with_2(arguments: list[str], env: dict[str, str]) -> None:
    ended = ottla(*arguments, env=env)
    assert ended.code == 2
    assert ended.stderr
    assert "Traceback" not in ended.stderr


def test_a_failed_item_ends_with_1_and_the_others_are_done(broker: Broker, env: dict[str, str]) -> None:
    ended = ottla("topics", "describe", "orders", "gone", "-b", broker.bootstrap, "-o", "json", env=env)
    assert ended.code == 1
    assert [(item["topic"], item["error"]) for item in ended.items] == [
        *[("orders", None)] * 3,
        ("gone", "UNKNOWN_TOPIC_OR_PARTITION"),
    ]


def test_a_deletion_is_refused_without_a_terminal(broker: Broker, env: dict[str, str]) -> None:
    ended = ottla("topics", "delete", "orders", "-b", broker.bootstrap, "-o", "json", env=env)
    assert ended.code == 2
    assert ended.document["error"]["code"] == "Usage"
    assert "--yes" in ended.stderr
    assert ottla("topics", "describe", "orders", "-b", broker.bootstrap, env=env).code == 0


def test_a_deletion_is_done_after_the_answer_yes(broker: Broker, env: dict[str, str]) -> None:
    broker.create_topic("doomed")
    delete = ("topics", "delete", "doomed", "-b", broker.bootstrap)
    refused = ottla_on_a_terminal(*delete, typed=[("[y/N]", "n\n")], env=env)
    assert refused.code == 1
    assert "nothing was changed" in refused.stdout
    assert ottla("topics", "describe", "doomed", "-b", broker.bootstrap, env=env).code == 0
    assert ottla_on_a_terminal(*delete, typed=[("[y/N]", "y\n")], env=env).code == 0
    assert ottla("topics", "describe", "doomed", "-b", broker.bootstrap, env=env).code == 1


def test_a_dry_run_changes_nothing(broker: Broker, env: dict[str, str]) -> None:
    where = ("-b", broker.bootstrap, "-o", "json")
    created = ottla("topics", "create", "never", "--dry-run", *where, env=env)
    assert created.document["dry_run"] is True
    assert created.items[0]["created"] is False
    assert ottla("topics", "delete", "orders", "--dry-run", *where, env=env).items[0]["deleted"] is False
    assert {item["topic"] for item in ottla("topics", "list", *where, env=env).items} == {"orders"}


def test_ctrl_c_ends_with_130(env: dict[str, str], tmp_path: Path) -> None:
    """The listener accepts the connection, and never answers."""
    with Listener() as listener:
        process = subprocess.Popen(
            [*COMMAND, "topics", "list", "-b", listener.address],
            env=env,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
        )
        listener.wait_for_a_client()
        process.send_signal(signal.SIGINT)
        stdout, stderr = process.communicate(timeout=PATIENCE_S)
    assert (process.returncode, stdout) == (130, b"")
    assert b"Traceback" not in stderr


def test_a_closed_pipe_ends_a_command_quietly(broker: Broker, env: dict[str, str]) -> None:
    reading, writing = os.pipe()
    os.close(reading)
    done = subprocess.run(
        [*COMMAND, "topics", "list", "-b", broker.bootstrap], env=env, stdout=writing, stderr=subprocess.PIPE
    )
    os.close(writing)
    assert done.returncode == 141
    assert done.stderr == b""


def test_names_of_topics_are_completed_from_a_cache(broker: Broker, env: dict[str, str]) -> None:
    def completed(word: str) -> str:
        words = f"ottla topics describe -b {broker.bootstrap} {word}"
        number = str(len(words.split()) - 1)
        shell = {"_OTTLA_COMPLETE": "bash_complete", "COMP_WORDS": words, "COMP_CWORD": number}
        return ottla(env={**env, **shell}).stdout

    assert completed("or") == "plain,orders\n"
    files = list((Path(env["XDG_CACHE_HOME"]) / "ottla").glob("topics-*.json"))
    assert [json.loads(file.read_text()) for file in files] == [["orders"]]
    files[0].write_text('["ordinary"]')
    assert completed("or") == "plain,ordinary\n"


def test_a_failed_completion_completes_nothing(env: dict[str, str]) -> None:
    words = f"ottla topics describe -b {NOBODY} o"
    shell = {"_OTTLA_COMPLETE": "bash_complete", "COMP_WORDS": words, "COMP_CWORD": "5"}
    ended = ottla(env={**env, **shell})
    assert (ended.code, ended.stdout.strip(), ended.stderr) == (0, "", "")


class Listener:
    """Accepts connections, and never answers."""

    def __enter__(self) -> "Listener":
        import socket

        self._socket = socket.create_server(("127.0.0.1", 0))
        self._socket.settimeout(PATIENCE_S)
        self.address = f"127.0.0.1:{self._socket.getsockname()[1]}"
        return self

    def wait_for_a_client(self) -> None:
        self._client, _ = self._socket.accept()
        self._client.recv(1)

    def __exit__(self, *_: object) -> None:
        self._client.close()
        self._socket.close()
