"""The addresses of listening sockets, and the errors of `listen`."""

import errno
import socket

import pytest

from ottla.broker.net.server import AddressInUse, listen


def test_a_port_that_is_taken_is_one_clear_error() -> None:
    with listen("127.0.0.1", 0, 1) as taken:
        port = taken.getsockname()[1]
        with pytest.raises(AddressInUse, match=rf"^listeners: 127\.0\.0\.1:{port} is in use by another process$"):
            listen("127.0.0.1", port, 1)


def test_an_address_of_another_machine_raises_the_error_of_the_system() -> None:
    with pytest.raises(OSError, match="assign") as refused:
        listen("192.0.2.1", 0, 1)
    assert refused.value.errno == errno.EADDRNOTAVAIL


def test_a_host_name_is_the_first_of_its_addresses() -> None:
    expected = {"localhost": socket.AF_INET, "127.0.0.1": socket.AF_INET}
    if socket.has_dualstack_ipv6():
        expected["::1"] = socket.AF_INET6
    for host, version in expected.items():
        with listen(host, 0, 1) as sock:
            assert sock.family == version


@pytest.mark.parametrize("host", ["nobody.invalid", "a..b", "a" * 64])
def test_a_host_name_without_an_address_is_an_error_of_the_resolver(host: str) -> None:
    with pytest.raises(socket.gaierror):
        listen(host, 0, 1)


def test_a_port_is_free_again_at_once_after_its_server_has_closed() -> None:
    with listen("127.0.0.1", 0, 5) as first:
        port = first.getsockname()[1]
        with socket.create_connection(("127.0.0.1", port)), first.accept()[0]:
            pass
    listen("127.0.0.1", port, 5).close()


def test_without_a_host_all_addresses_are_listened_at() -> None:
    with listen("", 0, 5) as listener:
        port = listener.getsockname()[1]
        for host in ("127.0.0.1", "::1") if listener.family == socket.AF_INET6 else ("127.0.0.1",):
            socket.create_connection((host, port)).close()
