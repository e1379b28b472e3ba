"""`ottla configs` and `ottla loggers`, on real brokers."""

from collections.abc import Iterator
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from ottla import Broker
from ottla.scripts.configs import configs
from ottla.scripts.terminal.config_changes import is_secret
from tests.scripts.running import Ended, environment, ottla

slow = pytest.mark.slow


@pytest.fixture(scope="module")
def broker() -> Iterator[Broker]:
    with Broker(log_segment_bytes=1 << 20) as running:
        yield running


@pytest.fixture
def env(tmp_path: Path) -> dict[str, str]:
    return environment(tmp_path)


class Commands:
    """Commands on one broker, with JSON as their output."""

    def __init__(self, broker: Broker, env: dict[str, str]) -> None:
        self._options = ("-b", broker.bootstrap, "-o", "json")
        self._env = env

    def __call__(self, *arguments: str) -> Ended:
        return ottla(*arguments, *self._options, env=self._env)

    def changes(self, *arguments: str) -> list[tuple[str, str | None, str | None]]:
        """Run a successful change; return each key before and after."""
        ended = self("configs", *arguments)
        assert ended.code == 0, ended
        return [(item["key"], item["before"], item["after"]) for item in ended.items]

    def broker_id(self) -> str:
        """Return the id of the only broker."""
        resource: str = self("configs", "describe", "broker/*", "--changed").items[0]["resource"]
        return resource.removeprefix("broker/")

    def own(self, resource: str) -> dict[str, tuple[str, str]]:
        """Return the values that differ from the defaults, and the defaults."""
        items = self("configs", "describe", resource, "--changed").items
        return {item["key"]: (item["value"], item["default"]) for item in items}


@pytest.fixture
def run(broker: Broker, env: dict[str, str]) -> Commands:
    return Commands(broker, env)


def refused(*arguments: str) -> Result:
    """Run a command that is refused before the first request."""
    ended = CliRunner().invoke(configs, [*arguments, "-b", "127.0.0.1:1"])
    assert ended.exit_code == 2, ended.output
    return ended


@slow
def test_configs_are_set_unset_and_described_with_their_defaults(run: Commands) -> None:
    run("topics", "create", "orders", "-c", "retention.ms=5000")
    assert run.own("topic/orders") == {"retention.ms": ("5000", "604800000")}
    change = ("set", "topic/orders", "segment.bytes=2000000", "retention.ms=6000")
    expected = [("segment.bytes", "1048576", "2000000"), ("retention.ms", "5000", "6000")]
    assert run.changes(*change, "--dry-run") == expected
    assert run.own("topic/orders") == {"retention.ms": ("5000", "604800000")}
    assert run.changes(*change) == expected
    assert run.own("topic/orders") == {
        "retention.ms": ("6000", "604800000"),
        "segment.bytes": ("2000000", "1048576"),
    }
    unset = ("unset", "topic/orders", "retention.ms", "segment.bytes")
    assert run.changes(*unset) == [
        ("retention.ms", "6000", "604800000"),
        ("segment.bytes", "2000000", "1048576"),
    ]
    assert run.own("topic/orders") == {}


@slow
def test_lists_are_changed_item_by_item(run: Commands) -> None:
    run("topics", "create", "listed")
    policy = "cleanup.policy"
    assert run.changes("append", "topic/listed", f"{policy}=compact") == [(policy, "delete", "delete,compact")]
    assert run.changes("append", "topic/listed", f"{policy}=compact") == [(policy, "delete,compact", "delete,compact")]
    assert run.changes("subtract", "topic/listed", f"{policy}=delete") == [(policy, "delete,compact", "compact")]
    assert run.own("topic/listed") == {policy: ("compact", "delete")}


@slow
def test_a_pattern_describes_all_that_match_and_a_missing_topic_is_an_error(run: Commands) -> None:
    run("topics", "create", "p-one", "p-two", "-c", "flush.ms=7")
    ended = run("configs", "describe", "topic/p-*", "topic/gone", "--changed", "--synonyms")
    assert ended.code == 1
    assert [(item["resource"], item["value"], item["error"]) for item in ended.items] == [
        ("topic/p-one", "7", None),
        ("topic/p-two", "7", None),
        ("topic/gone", None, "UNKNOWN_TOPIC_OR_PARTITION"),
    ]
    assert ended.items[0]["synonyms"][0] == "DYNAMIC_TOPIC_CONFIG:flush.ms=7"


@slow
def test_a_change_that_the_broker_refuses_is_an_error_of_every_key(run: Commands) -> None:
    run("topics", "create", "refused")
    ended = run("configs", "set", "topic/refused", "flush.ms=7", "bogus=1")
    assert ended.code == 1
    assert [(item["key"], item["error"]) for item in ended.items] == [
        ("flush.ms", "INVALID_CONFIG"),
        ("bogus", "INVALID_CONFIG"),
    ]
    assert ended.items[0]["after"] == ended.items[0]["before"]
    assert run("configs", "set", "topic/gone", "flush.ms=7").items[0]["error"] == "UNKNOWN_TOPIC_OR_PARTITION"


@slow
def test_brokers_and_their_defaults_have_configs(run: Commands) -> None:
    broker = run.broker_id()
    assert run.own(f"broker/{broker}")["log.segment.bytes"] == ("1048576", "1073741824")
    assert run.changes("set", "broker-defaults", "background.threads=12") == [("background.threads", None, "12")]
    assert run.own("broker-defaults")["background.threads"][0] == "12"
    assert run.changes("set", f"broker/{broker}", "background.threads=11") == [("background.threads", "12", "11")]
    run.changes("unset", f"broker/{broker}", "background.threads")
    run.changes("unset", "broker-defaults", "background.threads")
    assert "background.threads" not in run.own(f"broker/{broker}")


@slow
def test_secrets_are_read_from_a_file_and_not_shown(run: Commands, tmp_path: Path) -> None:
    run("topics", "create", "filed")
    file = tmp_path / "topic.properties"
    file.write_text("flush.ms=8\n")
    assert run.changes("set", "topic/filed", "--file", str(file))[0][2] == "8"
    file.write_text("listener.name.plaintext.ssl.key.password=hush\n")
    ended = run("configs", "set", "broker-defaults", "--file", str(file), "--dry-run")
    assert "hush" not in ended.stdout + ended.stderr


@slow
def test_a_diff_ends_with_1_if_anything_differs(run: Commands, broker: Broker) -> None:
    run("topics", "create", "left", "-c", "flush.ms=7", "-c", "retention.ms=5")
    run("topics", "create", "right", "-c", "flush.ms=8", "-c", "retention.ms=5")
    ended = run("configs", "diff", "topic/left", "topic/right")
    assert (ended.code, ended.items) == (1, [{"key": "flush.ms", "left": "7", "right": "8"}])
    same = run("configs", "diff", "topic/left", "topic/left")
    assert (same.code, same.items) == (0, [])
    defaults = run("configs", "diff", "topic/left", "defaults")
    assert {item["key"]: item["right"] for item in defaults.items} == {
        "flush.ms": "9223372036854775807",
        "retention.ms": "604800000",
    }
    gone = run("configs", "diff", "topic/left", "topic/gone")
    assert (gone.code, gone.document["error"]["code"]) == (1, "UNKNOWN_TOPIC_OR_PARTITION")
    with Broker() as other:
        ottla("topics", "create", "left", "-c", "flush.ms=7", "-b", other.bootstrap)
        across = run("configs", "diff", "topic/left", "--with-bootstrap-server", other.bootstrap)
    assert across.code == 1
    assert {"key": "retention.ms", "left": "5", "right": "604800000"} in across.items


@slow
def test_levels_of_loggers_are_listed_and_set(run: Commands) -> None:
    broker = run.broker_id()
    assert [item["level"] for item in run("loggers", "list", broker, "root*").items] == ["INFO"]
    dry = run("loggers", "set", broker, "root=warn", "--dry-run")
    assert [(item["logger"], item["before"], item["after"]) for item in dry.items] == [("root", "INFO", "WARN")]
    assert run("loggers", "set", broker, "root=error").code == 0
    assert run("loggers", "list", broker, "root").items[0]["level"] == "ERROR"
    wrong = run("loggers", "set", broker, "root=loud")
    assert (wrong.code, wrong.items[0]["after"]) == (1, "ERROR")
    assert run("loggers", "list", "77").code == 1


@slow
def test_the_shell_completes_resources(broker: Broker, env: dict[str, str]) -> None:
    ottla("topics", "create", "completed", "-b", broker.bootstrap, env=env)
    words = f"ottla configs describe -b {broker.bootstrap} topic/comp"
    asking = {**env, "_OTTLA_COMPLETE": "bash_complete", "COMP_WORDS": words, "COMP_CWORD": "5"}
    assert ottla(env=asking).stdout == "plain,topic/completed\n"


@pytest.mark.parametrize("text", ["orders", "topic/", "/orders", "table/orders", "broker/one", "broker-defaults/1"])
def test_an_invalid_resource_is_refused(text: str) -> None:
    assert text in refused("describe", text).output


def test_changes_without_keys_or_of_patterns_are_refused() -> None:
    assert "at least one key" in refused("set", "topic/orders").output
    assert "at least one key" in refused("unset", "topic/orders").output
    assert "not a pattern" in refused("set", "topic/*", "a=b").output
    assert "KEY=VALUE" in refused("set", "topic/orders", "a").output


def test_a_secret_on_the_command_line_is_refused() -> None:
    assert "--file" in refused("set", "broker/1", "listener.name.a.ssl.keystore.password=x").output
    assert all(map(is_secret, ("ssl.key.password", "listener.name.a.plain.sasl.jaas.config", "ssl.keystore.key")))
    assert not is_secret("retention.ms")


def test_a_diff_has_two_sides() -> None:
    assert "name a second resource" in refused("diff", "topic/orders").output
    assert "exclude each other" in refused("diff", "topic/orders", "defaults", "--with-bootstrap-server", "a:1").output
