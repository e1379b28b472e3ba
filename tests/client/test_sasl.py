"""The client's side of SASL, with the examples of the RFCs and with false servers."""

import base64

import pytest

from ottla.client.sasl import Plain, SaslError, Scram

# RFC 7677, section 3.
NONCE = "rOprNGfwEbeRWgbNEkqO"
FIRST = b"n,,n=user,r=rOprNGfwEbeRWgbNEkqO"
SERVER_FIRST = b"r=rOprNGfwEbeRWgbNEkqO%hvYDpWUa2RaTCAfuxFIlj)hNlF$k0,s=W22ZaJ0SNY7soEsUEjb6gQ==,i=4096"
FINAL = b"c=biws,r=rOprNGfwEbeRWgbNEkqO%hvYDpWUa2RaTCAfuxFIlj)hNlF$k0,p=dHzbZapWIk4jUhN+Ute9ytag9zjfMHgsqmmiz7AndVQ="
SERVER_FINAL = b"v=6rriTRBi23WpRR/wtup+mMhUZUn/dB5nLTJRsjl95G4="


def scram(username: str = "user", **options: bool) -> Scram:
    return Scram("SCRAM-SHA-256", username, "pencil", nonce=lambda: NONCE, **options)


def test_the_example_of_the_rfc_is_reproduced() -> None:
    client = scram()
    assert client.first() == FIRST
    assert client.next(SERVER_FIRST) == FINAL
    assert client.next(SERVER_FINAL) is None


def test_a_server_that_does_not_know_the_password_is_refused() -> None:
    client = scram()
    client.next(SERVER_FIRST)
    with pytest.raises(SaslError, match="its signature is wrong"):
        client.next(b"v=" + base64.b64encode(bytes(32)))


@pytest.mark.parametrize(
    ("message", "reason"),
    [
        (b"r=other,s=W22ZaJ0SNY7soEsUEjb6gQ==,i=4096", "nonce"),
        (b"r=rOprNGfwEbeRWgbNEkqO,s=W22ZaJ0SNY7soEsUEjb6gQ==,i=4096", "nonce"),
        (b"r=rOprNGfwEbeRWgbNEkqOmore,s=W22ZaJ0SNY7soEsUEjb6gQ==,i=1", "iterations"),
        (b"r=rOprNGfwEbeRWgbNEkqOmore,s=W22ZaJ0SNY7soEsUEjb6gQ==,i=99999999", "iterations"),
        (b"r=rOprNGfwEbeRWgbNEkqOmore,s=W22ZaJ0SNY7soEsUEjb6gQ==,i=-4096", "number of iterations"),
        (b"r=rOprNGfwEbeRWgbNEkqOmore,s=W22ZaJ0SNY7soEsUEjb6gQ==", "number of iterations"),
        (b"r=rOprNGfwEbeRWgbNEkqOmore,s=!,i=4096", "base64"),
        (b"r=rOprNGfwEbeRWgbNEkqOmore,i=4096", "base64"),
        (b"\xff\xfe", "UTF-8"),
        (b"e=unknown-user", "refused the authentication: unknown-user"),
        (b"", "nonce"),
    ],
)
def test_an_invalid_first_message_is_refused(message: bytes, reason: str) -> None:
    with pytest.raises(SaslError, match=reason):
        scram().next(message)


def test_special_characters_in_a_user_name_are_escaped() -> None:
    assert scram("a=b,c").first() == b"n,,n=a=3Db=2Cc,r=rOprNGfwEbeRWgbNEkqO"


def test_a_delegation_token_is_marked_in_the_first_message() -> None:
    assert scram(is_token=True).first() == FIRST + b",tokenauth=true"


def test_nonces_differ() -> None:
    assert Scram("SCRAM-SHA-512", "user", "pencil").first() != Scram("SCRAM-SHA-512", "user", "pencil").first()


def test_plain_sends_the_password_and_accepts_any_answer() -> None:
    client = Plain("usér", "pencil")
    assert client.first() == b"\0us\xc3\xa9r\0pencil"
    assert client.next(b"") is None
