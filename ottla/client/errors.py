"""Errors between a client and a cluster, in words that an operator can act on.

Owns the texts. Must not know a socket. An error code in a response is a `KafkaError`, not a `ClientError`.
"""

import ssl
from typing import Final

_TLS_ALERT: Final = 0x15
_TLS_MAJOR: Final = 0x03
_HTTP: Final = int.from_bytes(b"HTTP", "big")


class ClientError(Exception):
    """The cluster cannot be reached, or does not answer. The text is one line; `hint` says what to check."""

    def __init__(self, text: str, hint: str = "") -> None:
        super().__init__(text)
        self.hint = hint


class ConnectionFailedError(ClientError):
    """A broker cannot be reached, or the connection broke."""


class AuthenticationError(ClientError):
    """The broker does not accept the client's identity, or the client the broker's. A retry does not help."""


class UnsupportedRequestError(ClientError):
    """The broker lacks a request, or each version of it that the client needs. `api` is the request's name."""

    def __init__(self, text: str, api: str = "") -> None:
        super().__init__(text)
        self.api = api


class OperationTimedOutError(ClientError):
    """The cluster did not complete an operation in time."""


def unresolved(host: str, port: int, reason: str) -> ConnectionFailedError:
    """Return the error for a name that has no address."""
    return ConnectionFailedError(
        f"{host}:{port}: the host name does not resolve: {reason}",
        "Is the name spelt as the broker's listener has it, and known on this machine?",
    )


def unreachable(host: str, port: int, addresses: str, reason: str) -> ConnectionFailedError:
    """Return the error for an address that no connection can be made to."""
    where = f"{host}:{port}" if host in addresses else f"{host}:{port} ({addresses})"
    hint = "Is a broker running there, and does its `listeners` name this address and port?"
    return ConnectionFailedError(f"{where}: {reason}", hint)


def not_kafka(where: str, size: int) -> ConnectionFailedError:
    """Return the error for an answer that is not a frame; its first four bytes are the number `size`."""
    if (size >> 24) & 0xFF == _TLS_ALERT and (size >> 16) & 0xFF == _TLS_MAJOR:
        return ConnectionFailedError(
            f"{where}: the listener speaks TLS, but security.protocol is one without TLS",
            "Set security.protocol to SSL or SASL_SSL.",
        )
    if size == _HTTP:
        return ConnectionFailedError(f"{where}: a web server answers, not a Kafka broker", "Check the port.")
    return ConnectionFailedError(f"{where}: the server is not a Kafka broker", "Check the port.")


def closed_at_once(where: str, uses_tls: bool, uses_sasl: bool) -> ConnectionFailedError:
    """Return the error for a connection that ends before the first answer."""
    if uses_tls or uses_sasl:
        hint = "Is security.protocol the listener's?"
    else:
        hint = "The listener may need TLS or SASL: is security.protocol the listener's?"
    return ConnectionFailedError(f"{where}: the connection was closed before the first answer", hint)


def closed(where: str, uses_sasl: bool) -> ConnectionFailedError:
    """Return the error for a connection that ends after the first answer."""
    hint = "" if uses_sasl else "If it happens every time, the listener may need SASL."
    return ConnectionFailedError(f"{where}: the broker closed the connection", hint)


def tls_failed(where: str, error: ssl.SSLError | OSError) -> ClientError:
    """Return the error for a TLS handshake that failed."""
    if isinstance(error, ssl.SSLCertVerificationError):
        return AuthenticationError(
            f"{where}: the broker's certificate is not trusted: {error.verify_message}",
            "Is ssl.truststore.location the file with the authority that signed it, and is the host name in it?",
        )
    reason = getattr(error, "reason", None) or str(error)
    if reason in ("WRONG_VERSION_NUMBER", "RECORD_LAYER_FAILURE", "PACKET_LENGTH_TOO_LONG"):
        return ConnectionFailedError(
            f"{where}: the listener does not speak TLS, but security.protocol is one with TLS",
            "Set security.protocol to PLAINTEXT or SASL_PLAINTEXT.",
        )
    if "ALERT" in reason or "CERTIFICATE" in reason:
        return AuthenticationError(
            f"{where}: the broker refused the TLS connection: {reason}",
            "Does the listener need a client certificate (ssl.keystore.location)?",
        )
    if "EOF" in reason or isinstance(error, ConnectionError):
        return ConnectionFailedError(
            f"{where}: the broker closed the connection during the TLS handshake",
            "The listener may not speak TLS: is security.protocol the listener's?",
        )
    return ConnectionFailedError(
        f"{where}: the TLS handshake failed: {reason}", "Is the listener at this port one with TLS?"
    )


def advertised(broker: str, bootstrap: str, error: ClientError) -> ClientError:
    """Return the error for a broker that cannot be reached at the address from the metadata of `bootstrap`."""
    if broker in bootstrap.split(","):
        return error
    return type(error)(
        str(error),
        f"{bootstrap} named this address: the broker's advertised.listeners must be an address that clients can reach.",
    )
