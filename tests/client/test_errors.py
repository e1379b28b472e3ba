"""docs/connecting.md explains each line that a client prints after a failed connection."""

import re
import ssl
from pathlib import Path

import pytest

from ottla.client import errors

PAGE = (Path(__file__).parent.parent.parent / "docs" / "connecting.md").read_text()
WHERE = "kafka-1:9092"


def tls_error(reason: str) -> ssl.SSLError:
    error = ssl.SSLError(1, reason)
    error.reason = reason
    return error


LINES = [
    errors.unresolved("kafka-1", 9092, "..."),
    errors.unreachable("kafka-1", 9092, "10.0.0.7", "Connection refused"),
    errors.not_kafka(WHERE, 0x15030300),
    errors.not_kafka(WHERE, int.from_bytes(b"HTTP", "big")),
    errors.not_kafka(WHERE, -1),
    errors.closed_at_once(WHERE, uses_tls=False, uses_sasl=False),
    errors.closed(WHERE, uses_sasl=False),
    errors.tls_failed(WHERE, tls_error("WRONG_VERSION_NUMBER")),
    errors.tls_failed(WHERE, ConnectionResetError()),
    errors.advertised("kafka-2:9092", WHERE, errors.ConnectionFailedError("kafka-2:9092: no")),
]


@pytest.mark.parametrize("error", LINES, ids=str)
def test_the_page_explains_the_line(error: errors.ClientError) -> None:
    phrase = str(error).partition(": ")[2] or str(error)
    assert phrase in PAGE or "advertised.listeners" in error.hint


def test_a_host_that_is_an_address_is_not_repeated() -> None:
    assert str(errors.unreachable("10.0.0.7", 9092, "10.0.0.7", "no")) == "10.0.0.7:9092: no"


def test_a_bootstrap_address_has_no_hint_about_advertised_listeners() -> None:
    error = errors.ConnectionFailedError("kafka-1:9092: no", "Start it.")
    assert errors.advertised(WHERE, f"other:1,{WHERE}", error) is error


@pytest.mark.parametrize(
    ("reason", "kind", "says"),
    [
        ("SSLV3_ALERT_BAD_CERTIFICATE", errors.AuthenticationError, "refused the TLS connection"),
        (
            "UNEXPECTED_EOF_WHILE_READING",
            errors.ConnectionFailedError,
            "closed the connection during the TLS handshake",
        ),
        ("NO_PROTOCOLS_AVAILABLE", errors.ConnectionFailedError, "the TLS handshake failed"),
    ],
)
def test_the_error_of_a_failed_handshake_names_its_cause(
    reason: str, kind: type[errors.ClientError], says: str
) -> None:
    found = errors.tls_failed(WHERE, tls_error(reason))
    assert type(found) is kind
    assert re.search(says, str(found))
