"""The client's side of SASL: PLAIN and SCRAM as state machines over bytes.

Owns the messages and the check of the broker's proof. Must not know a connection.
Counterparts in Kafka: PlainSaslClient, ScramSaslClient, ScramFormatter.
"""

import base64
import binascii
import hashlib
import hmac
import secrets
from collections.abc import Callable, Mapping
from typing import Final, Protocol

_LEAST_ITERATIONS: Final = 4096
"""The least of RFC 7677. With fewer iterations a false broker could guess the password from the proof."""
_MOST_ITERATIONS: Final = 1_000_000
"""With more iterations any server could keep the client busy for seconds."""
_HASHES: Final[Mapping[str, str]] = {"SCRAM-SHA-256": "sha256", "SCRAM-SHA-512": "sha512"}


class SaslError(Exception):
    """The broker's answer does not prove its identity, or is not a message of the mechanism."""


class Mechanism(Protocol):
    """One authentication."""

    def first(self) -> bytes:
        """Return the client's first message."""
        ...

    def next(self, challenge: bytes) -> bytes | None:
        """Return the reply to a challenge; None at the end of the authentication. SaslError for a bad challenge."""
        ...


class Plain:
    """RFC 4616: the password itself, so use it over TLS only."""

    def __init__(self, username: str, password: str) -> None:
        self._message = b"\0".join((b"", username.encode(), password.encode()))

    def first(self) -> bytes:
        """Return the user and the password."""
        return self._message

    def next(self, challenge: bytes) -> bytes | None:
        """Accept any answer, because an error comes as an error code."""
        return None


class Scram:
    """RFC 5802 without channel binding. Both sides prove that they know the password; neither sends it."""

    def __init__(
        self,
        mechanism: str,
        username: str,
        password: str,
        *,
        is_token: bool = False,
        nonce: Callable[[], str] = lambda: secrets.token_urlsafe(24),
    ) -> None:
        """`is_token`: the user and password are a delegation token's id and HMAC."""
        self._hash = _HASHES[mechanism]
        self._password = password.encode()
        self._nonce = nonce()
        name = username.replace("=", "=3D").replace(",", "=2C")
        extension = ",tokenauth=true" if is_token else ""
        self._first_bare = f"n={name},r={self._nonce}{extension}"
        self._server_signature = b""

    def first(self) -> bytes:
        """Return the client's first message."""
        return f"n,,{self._first_bare}".encode()

    def next(self, challenge: bytes) -> bytes | None:
        """Return the proof for the server's first message; check its second message and return None."""
        fields = _fields(challenge)
        if "e" in fields:
            raise SaslError(f"the broker refused the authentication: {fields['e']}")
        if not self._server_signature:
            return self._proof(challenge, fields)
        if not hmac.compare_digest(_decoded(fields, "v"), self._server_signature):
            raise SaslError("the broker does not know the password: its signature is wrong")
        return None

    def _proof(self, challenge: bytes, fields: Mapping[str, str]) -> bytes:
        nonce, iterations = fields.get("r", ""), fields.get("i", "")
        if not nonce.startswith(self._nonce) or nonce == self._nonce:
            raise SaslError("the broker's nonce does not begin with the client's")
        if not (iterations.isascii() and iterations.isdigit() and len(iterations) < 9):
            raise SaslError(f"the broker's number of iterations is {iterations!r}")
        if not _LEAST_ITERATIONS <= int(iterations) <= _MOST_ITERATIONS:
            raise SaslError(f"{iterations} iterations are not between {_LEAST_ITERATIONS} and {_MOST_ITERATIONS}")
        final = f"c=biws,r={nonce}"
        message = b",".join((self._first_bare.encode(), challenge, final.encode()))
        salted = hashlib.pbkdf2_hmac(self._hash, self._password, _decoded(fields, "s"), int(iterations))
        client_key = self._hmac(salted, b"Client Key")
        signature = self._hmac(hashlib.new(self._hash, client_key).digest(), message)
        proof = bytes(one ^ other for one, other in zip(client_key, signature, strict=True))
        self._server_signature = self._hmac(self._hmac(salted, b"Server Key"), message)
        return f"{final},p={base64.b64encode(proof).decode()}".encode()

    def _hmac(self, key: bytes, message: bytes) -> bytes:
        return hmac.digest(key, message, self._hash)


def _fields(message: bytes) -> dict[str, str]:
    """Return the attributes of a message by their letter."""
    try:
        parts = [part.partition("=") for part in message.decode("utf-8").split(",")]
    except UnicodeDecodeError:
        raise SaslError("the broker's message is not UTF-8 text") from None
    return {name: value for name, equals, value in parts if equals}


def _decoded(fields: Mapping[str, str], name: str) -> bytes:
    try:
        return base64.b64decode(fields[name], validate=True)
    except (KeyError, binascii.Error):
        raise SaslError(f"the broker's message has no {name}= in base64") from None
