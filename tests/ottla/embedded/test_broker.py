"""`ottla.Broker`: serves at once, restarts in place, leaves nothing behind."""

import os
import select
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from ottla import Broker, Cluster
from ottla.embedded.broker import BrokerError

pytestmark = pytest.mark.slow
# A program that starts a broker, runs `then`, prints the broker's pid and folder, and runs `last`.
PROGRAM = """
import os, signal, sys
from ottla import Broker
broker = Broker()
broker.start()
{then}
print(broker.pid, broker.folder, flush=True)
{last}
"""


def connects(bootstrap: str) -> bool:
    host, port = bootstrap.rsplit(":", 1)
    try:
        socket.create_connection((host, int(port)), 5).close()
    except ConnectionRefusedError:
        return False
    return True


def outlived(then: str, last: str) -> tuple[int, Path, subprocess.Popen[str]]:
    """Run the program up to its last line; return its broker's process and folder."""
    program = PROGRAM.format(then=then, last=last)
    process = subprocess.Popen([sys.executable, "-P", "-c", program], stdout=subprocess.PIPE, text=True)
    assert process.stdout is not None
    pid, folder = process.stdout.readline().split()
    return int(pid), Path(folder), process


def ends(pid: int, timeout_s: float = 120) -> bool:
    """Wait for the end of a process that is no child of this one; return whether it ended."""
    try:
        descriptor = os.pidfd_open(pid)
    except ProcessLookupError:
        return True
    try:
        return bool(select.select([descriptor], [], [], timeout_s)[0])
    finally:
        os.close(descriptor)


def seconds_until_ready(make: Callable[[], Broker | Cluster]) -> float:
    """Return the seconds of a start, without the time for which the child waited for a processor."""
    began = time.perf_counter()
    with make() as child:
        passed = time.perf_counter() - began
        waited_ns = int(Path(f"/proc/{child.pid}/schedstat").read_text().split()[1])
    return passed - waited_ns / 1e9


def test_a_broker_serves_for_as_long_as_the_block_lasts() -> None:
    with Broker() as broker:
        bootstrap, folder = broker.bootstrap, broker.folder
        assert connects(bootstrap)
        assert (folder / "data").is_dir()
    assert not connects(bootstrap)
    assert not folder.exists()


@pytest.mark.measured
def test_a_broker_is_ready_in_well_under_a_second() -> None:
    assert min(seconds_until_ready(Broker) for _ in range(3)) < 0.9


@pytest.mark.parametrize("end", [Broker.stop, Broker.kill])
def test_a_broker_starts_again_on_its_port_and_data(end: object) -> None:
    with Broker() as broker:
        before = (broker.bootstrap, broker.folder, (broker.folder / "data" / "meta.properties").read_text())
        assert callable(end)
        end(broker)
        assert not connects(broker.bootstrap)
        broker.start()
        after = (broker.bootstrap, broker.folder, (broker.folder / "data" / "meta.properties").read_text())
        assert connects(broker.bootstrap)
        assert after == before


def test_overrides_are_kafkas_keys_with_underscores() -> None:
    with Broker(num_network_threads=3, auto_create_topics_enable=False) as broker:
        assert "Configuration keys without effect in Ottla: num.network.threads" in broker.output


@pytest.mark.parametrize("kind", [Broker, Cluster])
def test_an_unknown_keyword_is_refused_with_the_nearest_key(kind: type[Broker | Cluster]) -> None:
    for keyword, guess in {
        "num_partition": "; did you mean num_partitions?",
        "num.partition": "; did you mean num.partitions?",
        "nonsense": "",
    }.items():
        with pytest.raises(TypeError) as refused:
            kind(**{keyword: 1})
        assert str(refused.value) == f"unknown keyword {keyword}{guess}"


def test_known_keywords_are_kafkas_keys_and_keys_of_single_listeners() -> None:
    Broker(num_network_threads=3, **{"listener.name.plaintext.max.connections": 10, "num.partitions": 3})


@pytest.mark.parametrize(("given", "expected"), [({}, "0"), ({"group_initial_rebalance_delay_ms": 3000}, "3000")])
def test_an_empty_group_waits_for_no_further_members_unless_asked_to(given: dict[str, int], expected: str) -> None:
    with Broker(**given) as broker:
        assert f"group.initial.rebalance.delay.ms={expected}, " in broker.output


def test_a_refused_topic_raises_the_brokers_reason() -> None:
    with Broker() as broker:
        broker.create_topic("t", partitions=2)
        for name, reason in {"t": "Topic 't' already exists.", "a b": "Topic name is invalid: 'a b' contains "}.items():
            with pytest.raises(BrokerError, match=f"^topic {name} cannot be created: {reason}"):
                broker.create_topic(name)
        broker.kill()
        with pytest.raises(BrokerError, match=r"^topic u cannot be created: the broker is not running$"):
            broker.create_topic("u")


def test_a_failed_start_raises_the_brokers_reason() -> None:
    broker = Broker(num_partitions=0)
    reason = "Invalid value 0 for configuration num.partitions: Value must be at least 1"
    with pytest.raises(BrokerError, match=f"^the broker did not start: {reason}$"):
        broker.start()
    with pytest.raises(BrokerError, match="has not been started"):
        _ = broker.folder


def test_the_environment_of_the_caller_does_not_reach_the_broker(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("KAFKA_NUM_PARTITIONS", "0")
    with Broker() as broker:
        assert connects(broker.bootstrap)


def test_folders_of_the_caller_named_like_ours_do_no_harm(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("log", "wire", "ottla", "logging", "trio"):
        (tmp_path / name).mkdir()
        (tmp_path / name / "__init__.py").write_text("raise RuntimeError('shadowed')\n")
    monkeypatch.chdir(tmp_path)
    with Broker() as broker:
        assert connects(broker.bootstrap)


@pytest.mark.parametrize(
    "last",
    ["os.kill(os.getpid(), signal.SIGKILL)", "os._exit(0)", "sys.exit(0)", "raise RuntimeError('a test that fails')"],
)
def test_a_broker_ends_with_its_parent_however_the_parent_ends(last: str) -> None:
    pid, folder, process = outlived("", last)
    process.communicate(timeout=120)
    assert ends(pid)
    assert not folder.exists()


@pytest.mark.parametrize("arguments", [("ottla.embedded.broker_process",), ("ottla.embedded.cluster_process", "2")])
def test_a_broker_whose_parent_ends_while_it_is_imported_leaves_nothing(
    tmp_path: Path, arguments: tuple[str, ...]
) -> None:
    folder = tmp_path / "folder"
    folder.mkdir()
    command = [sys.executable, "-P", "-X", "importtime", "-m", arguments[0], str(folder), *arguments[1:]]
    pipe = subprocess.PIPE
    with subprocess.Popen(command, stdin=pipe, stdout=pipe, stderr=pipe, text=True) as process:
        assert process.stderr is not None
        assert any(" trio\n" in line for line in process.stderr)
        assert process.communicate(timeout=30)[0] == ""
    assert not folder.exists()


def test_a_broker_ends_with_its_parent_even_if_a_fork_of_the_parent_lives() -> None:
    fork = "child = os.fork()\nif not child:\n    os.close(1)\n    signal.pause()\nprint(child, end=' ')"
    program = PROGRAM.format(then=fork, last="os.kill(os.getpid(), signal.SIGKILL)")
    with subprocess.Popen([sys.executable, "-P", "-c", program], stdout=subprocess.PIPE, text=True) as process:
        out, _ = process.communicate(timeout=120)
        forked, pid, folder = out.split()
        try:
            assert ends(int(pid))
            assert not Path(folder).exists()
        finally:
            os.kill(int(forked), signal.SIGKILL)


def test_an_interrupt_from_the_terminal_reaches_the_caller_alone() -> None:
    with Broker() as broker:
        assert os.getpgid(broker.pid) == broker.pid
