"""`python -m ottla.commands.health_check [HOST:PORT]`: exit 0 if a broker answers, else print one line and exit 1.

Owns: the request, ApiVersions, and the address of the broker that this environment configures. Must not know how a
broker works. Counterpart in Kafka: `kafka-broker-api-versions.sh`.
"""

import argparse
import os
import socket
import sys
from collections.abc import Mapping
from typing import Final

from ottla.broker.config.broker_config import BrokerConfig
from ottla.wire.codec import decode_response, encode_request
from ottla.wire.config_def import ConfigError
from ottla.wire.errors import DecodeError, ErrorCode
from ottla.wire.messages.api_versions import ApiVersionsRequest, ApiVersionsResponse

TIMEOUT_SECONDS: Final = 5
_EVERY_INTERFACE: Final = ("", "0.0.0.0", "::")


def configured_address(environ: Mapping[str, str]) -> tuple[str, int]:
    """Return host and port by which this machine reaches the first listener of the configuration in `environ`."""
    config, _ = BrokerConfig.load(None, {}, environ)
    listener = config.listeners[0]
    return "localhost" if listener.host in _EVERY_INTERFACE else listener.host, listener.port


def check(host: str, port: int) -> None:
    """Send ApiVersions to a broker. OSError or DecodeError if the answer is not a broker's."""
    request = encode_request(0, 1, "ottla-health-check", ApiVersionsRequest())
    with socket.create_connection((host, port), TIMEOUT_SECONDS) as sock, sock.makefile("rb") as replies:
        sock.sendall(request)
        # A response to ApiVersions is far smaller than 64 KiB; the first bytes of another protocol announce more.
        size = int.from_bytes(replies.read(4), "big")
        if not 0 < size < 1 << 16:
            raise DecodeError("no reply of a broker")
        _, response = decode_response(memoryview(replies.read(size)), ApiVersionsRequest, 0)
    assert isinstance(response, ApiVersionsResponse)
    if response.error_code != ErrorCode.NONE:
        raise DecodeError(f"error {response.error_code}")


def main() -> int:
    """Check the broker that the arguments or the environment name; return the exit code."""
    parser = argparse.ArgumentParser(
        prog="python -m ottla.commands.health_check", description="Check that a broker answers."
    )
    parser.add_argument(
        "address", nargs="?", metavar="HOST:PORT", help="default: the first listener of the KAFKA_* variables"
    )
    address = parser.parse_args().address
    try:
        host, port = configured_address(os.environ) if address is None else _parsed(address)
        check(host, port)
    except (OSError, DecodeError, ConfigError) as error:
        sys.stderr.write(f"ottla: no broker answers: {error}\n")
        return 1
    return 0


def _parsed(address: str) -> tuple[str, int]:
    host, _, port = address.rpartition(":")
    if not host or not port.isdecimal():
        raise ConfigError(f"{address!r} is no HOST:PORT")
    return host.strip("[]"), int(port)


if __name__ == "__main__":
    sys.exit(main())
