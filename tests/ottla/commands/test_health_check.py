"""`python -m ottla.commands.health_check`: the health check of a container."""

import socket
import subprocess
import sys
import threading
from collections.abc import Iterator

import pytest

from ottla import Broker
from ottla.commands.health_check import configured_address


def checked(*arguments: str, **environment: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "ottla.commands.health_check", *arguments]
    return subprocess.run(command, env=environment, capture_output=True, text=True, timeout=60)


@pytest.fixture
def stranger() -> Iterator[str]:
    """Yield the address of a server that answers every request in another protocol."""
    with socket.create_server(("127.0.0.1", 0)) as server:

        def answer() -> None:
            connection, _ = server.accept()
            with connection:
                connection.recv(1024)
                connection.sendall(b"HTTP/1.1 400 Bad Request\r\n\r\n")

        thread = threading.Thread(target=answer)
        thread.start()
        yield f"127.0.0.1:{server.getsockname()[1]}"
        thread.join()


@pytest.mark.slow
def test_a_broker_that_serves_is_healthy_and_one_that_was_killed_is_not() -> None:
    with Broker() as broker:
        port = broker.bootstrap.rpartition(":")[2]
        healthy = checked(KAFKA_LISTENERS=f"PLAINTEXT://127.0.0.1:{port}")
        assert (healthy.returncode, healthy.stdout, healthy.stderr) == (0, "", "")
        broker.kill()
        ill = checked(broker.bootstrap)
    assert (ill.returncode, ill.stdout, ill.stderr.count("\n")) == (1, "", 1)
    assert ill.stderr.startswith("ottla: no broker answers: ")


def test_a_server_of_another_protocol_is_no_healthy_broker(stranger: str) -> None:
    done = checked(stranger)
    assert (done.returncode, done.stderr) == (1, "ottla: no broker answers: no reply of a broker\n")


@pytest.mark.parametrize(
    ("listeners", "address"),
    [
        ("PLAINTEXT://:9092", ("localhost", 9092)),
        ("PLAINTEXT://0.0.0.0:9093,CLIENT://:1", ("localhost", 9093)),
        ("PLAINTEXT://127.0.0.2:9094", ("127.0.0.2", 9094)),
    ],
)
def test_the_address_is_that_of_the_first_listener(listeners: str, address: tuple[str, int]) -> None:
    names = {"KAFKA_LISTENER_SECURITY_PROTOCOL_MAP": "PLAINTEXT:PLAINTEXT,CLIENT:PLAINTEXT"}
    # The advertised host does not count.
    names |= {"KAFKA_LISTENERS": listeners, "KAFKA_ADVERTISED_LISTENERS": "PLAINTEXT://localhost:1"}
    assert configured_address(names) == address


def test_a_bad_address_or_configuration_is_refused_in_one_line() -> None:
    assert checked("localhost").stderr == "ottla: no broker answers: 'localhost' is no HOST:PORT\n"
    refused = checked(KAFKA_LISTENERS="nonsense")
    assert (refused.returncode, refused.stderr.count("\n")) == (1, 1)
