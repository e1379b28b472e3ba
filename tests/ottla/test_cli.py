"""The command line: its lines and its exit codes."""

import json
import logging
import os
import re
import shutil
import signal
import socket
import subprocess
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

import click
import pytest
from click.testing import CliRunner

from ottla.broker.config.broker_config import BrokerConfig
from ottla.cli import main
from ottla.serving import log_config
from ottla.wire.records.batch import NewRecord, build_batch

ENVIRONMENT = {name: value for name, value in os.environ.items() if not name.startswith("KAFKA_")}
HEAVY = ("trio", "construct", "asyncio", "ottla.broker", "ottla.wire", "ottla.log.")


def command(folder: Path, settings: Sequence[str]) -> list[str]:
    defaults = ["listeners=PLAINTEXT://127.0.0.1:0", f"log.dirs={folder / 'data'}"]
    overrides = [part for setting in [*defaults, *settings] for part in ("--override", setting)]
    return [sys.executable, "-P", "-m", "ottla", "serve", *overrides]


@contextmanager
def serving(
    folder: Path, *settings: str, options: Sequence[str] = (), **environment: str
) -> Iterator[tuple[subprocess.Popen[str], str]]:
    """Yield a broker process and its bootstrap address."""
    process = subprocess.Popen(
        [*command(folder, settings), *options],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        cwd=folder,
        env=ENVIRONMENT | environment,
    )
    assert process.stdout is not None
    with process:
        try:
            line = process.stdout.readline()
            match = re.fullmatch(r"ottla ready bootstrap=(127\.0\.0\.1:\d+)\n", line)
            if not match:
                process.kill()
                pytest.fail(f"{line!r} {process.communicate()[1]}")
            yield process, match[1]
        finally:
            process.kill()


def refused(folder: Path, *settings: str, arguments: Sequence[str] = (), **environment: str) -> str:
    """Return the one line with which a broker refuses to start."""
    done = subprocess.run(
        [*command(folder, settings), *arguments],
        capture_output=True,
        text=True,
        cwd=folder,
        env=ENVIRONMENT | environment,
        timeout=120,
    )
    assert (done.returncode, done.stdout) == (1, "")
    assert "Traceback" not in done.stderr
    complaints = [line for line in done.stderr.splitlines() if line.startswith("ottla: ")]
    assert len(complaints) == 1
    return complaints[0]


def test_the_version_is_that_of_the_distribution() -> None:
    result = CliRunner().invoke(main, ["--version"], prog_name="ottla")
    assert re.fullmatch(r"ottla \d+\.\d+\.\d+\n", result.output)


def commands(command: click.Command = main, *path: str) -> Iterator[tuple[str, click.Command]]:
    yield " ".join(path), command
    if isinstance(command, click.Group):
        for name, each in command.commands.items():
            yield from commands(each, *path, name)


@pytest.mark.parametrize(("name", "command"), list(commands()))
def test_help_is_whole_sentences_and_names_the_value_of_each_option(name: str, command: click.Command) -> None:
    assert (command.help or "").split("\n\n")[0].rstrip().endswith(".")
    # The list of commands shows the whole first line.
    assert not command.get_short_help_str(limit=60).endswith("...")
    for parameter in command.params:
        says_what = parameter.metavar or isinstance(parameter.type, click.Choice | click.types.BoolParamType)
        assert says_what, f"click's own word for {parameter.name} is too general"
        if isinstance(parameter, click.Option):
            assert re.fullmatch(r"[A-Z].*\.", parameter.help or ""), parameter


@pytest.mark.skipif(shutil.which("bash") is None, reason="bash is missing")
def test_bash_completes_commands_and_options() -> None:
    script = CliRunner().invoke(main, ["completion", "bash"]).output
    ask = """
        ottla() { "$PYTHON" -P -m ottla "$@"; }
        env() { while [[ $1 == *=* ]]; do local -x "$1"; shift; done; "$@"; }
        for words in "ottla met" "ottla serve --po" "ottla completion z"; do
            COMP_WORDS=($words) COMP_CWORD=$((${#COMP_WORDS[@]} - 1)) COMPREPLY=()
            _ottla_completion ottla; echo "${COMPREPLY[@]}"
        done
    """
    environment = ENVIRONMENT | {"PYTHON": sys.executable}
    done = subprocess.run(["bash", "-c", script + ask], capture_output=True, text=True, env=environment, timeout=60)
    assert (done.stdout, done.stderr) == ("metadata\n--port\nzsh\n", "")


@pytest.mark.parametrize(("shell", "start"), [("zsh", "#compdef ottla\n"), ("fish", "function _ottla_completion")])
def test_other_shells_get_a_script_of_their_own(shell: str, start: str) -> None:
    result = CliRunner().invoke(main, ["completion", shell])
    assert (result.exit_code, result.output.startswith(start), "_OTTLA_COMPLETE=" in result.output) == (0, True, True)


@pytest.mark.parametrize("module", ["ottla", "ottla.cli", "ottla.embedded.broker", "ottla.pytest_plugin"])
def test_the_modules_that_users_import_load_no_broker(module: str) -> None:
    allowed = {"ottla.wire", "ottla.wire.config_def"} if module == "ottla.embedded.broker" else set()
    # The plugin imports pytest, which imports what it likes.
    script = f"import sys, pytest; before = set(sys.modules); import {module}; print(*set(sys.modules) - before)"
    done = subprocess.run([sys.executable, "-P", "-c", script], capture_output=True, text=True, check=True)
    assert {name for name in done.stdout.split() if name.startswith(HEAVY)} <= allowed


@pytest.mark.slow
@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_a_signal_stops_a_serving_broker_cleanly(tmp_path: Path, number: signal.Signals) -> None:
    with serving(tmp_path) as (process, bootstrap):
        host, port = bootstrap.split(":")
        socket.create_connection((host, int(port)), 5).close()
        process.send_signal(number)
        _, stderr = process.communicate(timeout=120)
        assert (process.returncode, "Traceback" in stderr) == (0, False)
    assert (tmp_path / "data" / ".kafka_cleanshutdown").exists()


def ready(arguments: Sequence[object], folder: Path, **environment: str) -> tuple[str, str]:
    """Start a broker and stop it cleanly; return its bootstrap address and its stderr."""
    process = subprocess.Popen(
        [sys.executable, "-P", "-m", "ottla", "serve", *map(str, arguments)],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        cwd=folder,
        env=ENVIRONMENT | environment,
    )
    with process:
        assert process.stdout is not None
        line = process.stdout.readline()
        process.terminate()
        _, stderr = process.communicate(timeout=30)
    assert (process.returncode, "ottla ready bootstrap=" in line) == (0, True), stderr
    return line.removeprefix("ottla ready bootstrap=").strip(), stderr


SERVE = ("serve", "--port", "0", "--data", "data")
CLUSTER = ("cluster", "up", "--port", "0", "--data", "data")


@pytest.mark.slow
@pytest.mark.parametrize(
    ("arguments", "sign", "code"),
    [
        (SERVE, " click.core\n", 0),
        (SERVE, " trio\n", 0),
        (SERVE, " ottla.broker.node\n", 0),
        (SERVE, " INFO starting ", 0),
        (SERVE, " INFO Loading ", 0),
        (CLUSTER, " ottla.commands.local_cluster\n", 0),
        (("pipeline", "run", "job.toml"), " ottla.pipeline\n", 0),
        (("verify", "."), " click.core\n", 130),
    ],
)
def test_an_interrupt_at_any_point_of_a_start_is_a_clean_stop(
    tmp_path: Path, arguments: Sequence[str], sign: str, code: int
) -> None:
    (tmp_path / "job.toml").touch()
    for program in ("java", "mvn"):
        # Without them a cluster ends by itself, maybe before the signal comes.
        (tmp_path / program).write_text("#!/bin/sh\nexec /bin/sleep 600\n")
        (tmp_path / program).chmod(0o755)
    command = [sys.executable, "-P", "-X", "importtime", "-m", "ottla", *arguments]
    pipe, environment = subprocess.PIPE, ENVIRONMENT | {"PATH": str(tmp_path)}
    with subprocess.Popen(
        command, stdout=pipe, stderr=pipe, text=True, cwd=tmp_path, env=environment, start_new_session=True
    ) as process:
        assert process.stderr is not None
        assert any(sign in line for line in process.stderr)
        # As Ctrl-C on a terminal: for the whole process group.
        os.killpg(process.pid, signal.SIGINT)
        _, stderr = process.communicate(timeout=30)
    assert (process.returncode, "Traceback" in stderr) == (code, False), stderr
    assert (tmp_path / "data" / ".kafka_cleanshutdown").exists() or not (tmp_path / "data" / "meta.properties").exists()


@pytest.mark.slow
def test_without_a_file_the_broker_serves_localhost_with_data_in_the_users_data_folder(tmp_path: Path) -> None:
    bootstrap, _ = ready(["--port", 0], tmp_path, XDG_DATA_HOME=str(tmp_path / "share"))
    assert re.fullmatch(r"localhost:\d+", bootstrap)
    assert (tmp_path / "share" / "ottla" / ".kafka_cleanshutdown").exists()


@pytest.mark.slow
def test_flags_come_before_overrides_then_the_environment_then_the_file(tmp_path: Path) -> None:
    file = tmp_path / "server.properties"
    file.write_text(f"log.dirs={tmp_path / 'file'}\nnum.partitions=1\ndefault.replication.factor=1\n")
    environment = {"KAFKA_LOG_DIRS": str(tmp_path / "environment"), "KAFKA_NUM_PARTITIONS": "2"}
    overrides = [f"log.dirs={tmp_path / 'override'}", "broker.id=3"]
    options = [part for each in overrides for part in ("--override", each)]
    _, said = ready([file, *options, "--data", tmp_path / "flag", "--port", 0], tmp_path, **environment)
    # With a file the default listener is Kafka's: every address.
    found = {"broker.id": 3, "default.replication.factor": 1, "listeners": "PLAINTEXT://:0"}
    found |= {"log.dirs": tmp_path / "flag", "num.partitions": 2}
    assert f"configured: {', '.join(f'{key}={value}' for key, value in found.items())} (" in said
    assert [each.name for each in tmp_path.iterdir() if each.is_dir()] == ["flag"]


def test_the_logged_configuration_leaves_out_an_unread_log_dir(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO)
    log_config(BrokerConfig.load(None, {"log.dirs": "/read"}, {}, defaults={"log.dir": "/unread"})[0], [])
    assert caplog.messages[0] == "configured: log.dirs=/read"


@pytest.mark.slow
def test_start_up_logs_unknown_keys_keys_without_effect_and_the_form_of_the_hot_path(tmp_path: Path) -> None:
    with serving(tmp_path, "num.partition=3", KAFKA_NUM_NETWORK_THREADS="3") as (process, _):
        process.terminate()
        _, stderr = process.communicate(timeout=120)
    assert "unknown configuration num.partition is ignored; did you mean num.partitions?" in stderr
    assert "Configuration keys without effect in Ottla: num.network.threads" in stderr
    assert "the hot path runs " in stderr


@pytest.mark.slow
def test_a_taken_port_is_refused_in_one_line(tmp_path: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        line = refused(tmp_path, f"listeners=PLAINTEXT://127.0.0.1:{port}")
    assert f"127.0.0.1:{port}" in line
    assert "in use" in line


@pytest.mark.slow
def test_an_impossible_listener_is_refused_in_one_line_that_names_the_key(tmp_path: Path) -> None:
    for value, line in {
        "PLAINTEXT://nobody.invalid:0": "the host name nobody.invalid cannot be resolved: ",
        "PLAINTEXT://192.0.2.1:0": "192.0.2.1 is no address of this machine",
        "SASL_SSL://localhost:0": "SASL_SSL asks for SASL_SSL; Ottla serves PLAINTEXT only, no TLS and no SASL",
    }.items():
        assert refused(tmp_path, f"listeners={value}").startswith(f"ottla: listeners: {line}")
    assert list(tmp_path.iterdir()) == []


@pytest.mark.slow
@pytest.mark.parametrize("connect", ["a:b:c", "127.0.0.1:1//x"])
def test_a_malformed_zookeeper_connect_is_refused_in_one_line_that_names_the_key(tmp_path: Path, connect: str) -> None:
    assert refused(tmp_path, f"zookeeper.connect={connect}").startswith("ottla: zookeeper.connect: ")


@pytest.mark.slow
def test_a_data_directory_in_use_is_refused_in_one_line(tmp_path: Path) -> None:
    with serving(tmp_path):
        line = refused(tmp_path)
    assert str(tmp_path / "data") in line
    assert "in use" in line


@pytest.mark.slow
def test_a_bad_value_from_any_source_is_refused_in_one_line(tmp_path: Path) -> None:
    line = "ottla: Invalid value 0 for configuration num.partitions: Value must be at least 1"
    file = tmp_path / "server.properties"
    file.write_text("num.partitions=0\n")
    assert refused(tmp_path, "num.partitions=0") == line
    assert refused(tmp_path, KAFKA_NUM_PARTITIONS="0") == line
    assert refused(tmp_path, arguments=[str(file)]) == line


@pytest.mark.slow
def test_a_missing_file_is_refused_in_one_line(tmp_path: Path) -> None:
    file = tmp_path / "missing.properties"
    assert refused(tmp_path, arguments=[str(file)]) == f"ottla: {file}: No such file or directory"


@pytest.mark.slow
def test_a_data_directory_that_cannot_be_made_is_refused_in_one_line(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    place = tmp_path / "file" / "data"
    line = refused(tmp_path, f"log.dirs={place}")
    assert line.endswith(f"none of the specified log dirs from {place} can be created or validated")


@pytest.mark.slow
def test_a_partition_in_two_directories_is_refused_in_one_line(tmp_path: Path) -> None:
    for name in ("a", "b"):
        (tmp_path / name / "t-0").mkdir(parents=True)
    line = refused(tmp_path, f"log.dirs={tmp_path / 'a'},{tmp_path / 'b'}")
    assert "manually deleting one of the two directories" in line


@pytest.mark.slow
def test_the_broker_logs_json_with_the_log_format_json(tmp_path: Path) -> None:
    with serving(tmp_path, options=["--log-format", "json", "--log-level", "kafka.server=warn"]) as (process, _):
        process.terminate()
        _, stderr = process.communicate(timeout=120)
    said = [json.loads(line) for line in stderr.splitlines()]
    loggers = {each["logger"] for each in said}
    # On a busy machine the watchdog may warn of a blocked loop.
    assert {each["level"] for each in said if each["logger"] != "ottla.watchdog"} == {"INFO"}
    assert {"kafka.controller.KafkaController", "kafka.log.LogManager", "kafka.network.DataPlaneAcceptor"} <= loggers
    assert "kafka.server.KafkaServer" not in loggers


@pytest.mark.slow
def test_an_unread_stderr_stops_no_client(tmp_path: Path) -> None:
    with serving(tmp_path, options=["--log-level", "kafka.request.logger=debug"]) as (process, bootstrap):
        host, port = bootstrap.split(":")
        with socket.create_connection((host, int(port)), 10) as client:
            # ApiVersions of version 0: each is told of in more than a kilobyte.
            for _ in range(3000):
                client.sendall(bytes.fromhex("0000000a 0012 0000 00000001 ffff"))
                size = int.from_bytes(client.recv(4, socket.MSG_WAITALL), "big")
                assert len(client.recv(size, socket.MSG_WAITALL)) == size > 0
        process.terminate()
        assert process.wait(timeout=120) == 0


@pytest.mark.slow
def test_the_watchdog_logs_the_stack_of_a_call_that_blocks_the_loop(tmp_path: Path) -> None:
    script = f"""if True:
        import os, signal, threading, time
        import trio
        from ottla import serving

        async def block():
            while all(each.name != "watchdog" for each in threading.enumerate()):
                await trio.sleep(0)
            time.sleep(0.5)
            os.kill(os.getpid(), signal.SIGTERM)

        def announce(bootstrap):
            trio.lowlevel.spawn_system_task(block)
            return ""

        serving.announce = announce
        serving.run(None, {{"listeners": "PLAINTEXT://127.0.0.1:0", "log.dirs": {str(tmp_path)!r}}}, {{}})
    """
    done = subprocess.run([sys.executable, "-P", "-c", script], capture_output=True, text=True, timeout=120, check=True)
    said = re.search(r"WARN The loop is blocked, for \d+ ms so far \(ottla\.watchdog\)\n((?:\t.*\n)+)", done.stderr)
    assert said
    assert ", in block\n" in said[1]


@pytest.mark.parametrize("level", ["LOUD", "kafka.server=", "kafka.server=LOUD"])
def test_an_unknown_level_is_refused_in_one_line(level: str) -> None:
    result = CliRunner().invoke(main, ["serve", "--log-level", level])
    assert result.exit_code == 1
    assert result.output.startswith("ottla: --log-level takes one of TRACE, DEBUG, INFO, WARN, ERROR, FATAL, ")
    assert result.output.endswith(f"not {level!r}\n")


def test_an_override_without_a_value_is_refused_in_one_line() -> None:
    result = CliRunner().invoke(main, ["serve", "--override", "num.partitions"])
    assert (result.exit_code, result.output) == (1, "ottla: --override takes KEY=VALUE, not 'num.partitions'\n")


def test_verify_prints_defects_and_mends_them_with_repair(tmp_path: Path) -> None:
    segment = tmp_path / "orders-0" / f"{0:020d}.log"
    segment.parent.mkdir()
    segment.write_bytes(bytes(build_batch([NewRecord(value=b"v", timestamp=1)])))
    runner = CliRunner()
    broken = runner.invoke(main, ["verify", str(tmp_path)])
    assert broken.exit_code == 1
    assert broken.stdout == (
        f"{segment.with_suffix('.index')}: is missing\n"
        f"{segment.with_suffix('.timeindex')}: is missing\n"
        "1 logs with 1 batches: 2 findings\n"
    )
    mended = runner.invoke(main, ["verify", "--repair", str(tmp_path)])
    assert (mended.exit_code, mended.stdout.splitlines()[-1]) == (
        0,
        "1 logs with 1 batches: 2 findings, 2 of them repaired",
    )
    sound = runner.invoke(main, ["verify", str(tmp_path)])
    assert (sound.exit_code, sound.stdout, sound.stderr) == (0, "1 logs with 1 batches: 0 findings\n", "")


def test_verify_refuses_a_folder_that_is_no_log_directory(tmp_path: Path) -> None:
    done = CliRunner().invoke(main, ["verify", str(tmp_path)])
    assert done.exit_code == 1
    assert done.stderr == f"ottla: {tmp_path} is neither a log directory nor that of a partition\n"
