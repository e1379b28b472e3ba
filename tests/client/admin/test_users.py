"""SCRAM credentials: the requests that set them, and descriptions of users."""

import base64
import hashlib
import hmac

from ottla.client.admin.users import (
    Credential,
    Deletion,
    Mechanism,
    Upsertion,
    alter_users,
    describe_users,
    salted_password,
)
from ottla.client.cluster import open_client
from ottla.client.config import ClientConfig
from ottla.wire.codec import RequestHeader
from ottla.wire.errors import ErrorCode, KafkaError
from ottla.wire.messages.alter_user_scram_credentials import (
    AlterUserScramCredentialsRequest,
    AlterUserScramCredentialsResponse,
    AlterUserScramCredentialsResult,
)
from ottla.wire.messages.describe_user_scram_credentials import (
    CredentialInfo,
    DescribeUserScramCredentialsRequest,
    DescribeUserScramCredentialsResponse,
    DescribeUserScramCredentialsResult,
)
from ottla.wire.messages.metadata import MetadataRequest
from ottla.wire.schema import Request, Response
from tests.client.scripted import ScriptedBroker, listening, metadata

# The exchange of RFC 7677, section 3.
PASSWORD = b"pencil"
SALT = base64.b64decode("W22ZaJ0SNY7soEsUEjb6gQ==")
EXCHANGE = (
    b"n=user,r=rOprNGfwEbeRWgbNEkqO,"
    b"r=rOprNGfwEbeRWgbNEkqO%hvYDpWUa2RaTCAfuxFIlj)hNlF$k0,s=W22ZaJ0SNY7soEsUEjb6gQ==,i=4096,"
    b"c=biws,r=rOprNGfwEbeRWgbNEkqO%hvYDpWUa2RaTCAfuxFIlj)hNlF$k0"
)
SERVER_SIGNATURE = "6rriTRBi23WpRR/wtup+mMhUZUn/dB5nLTJRsjl95G4="


def test_a_salted_password_equals_the_example_of_the_rfc() -> None:
    salted = salted_password(Mechanism.SCRAM_SHA_256, PASSWORD, SALT, 4096)
    server_key = hmac.digest(salted, b"Server Key", "sha256")
    assert base64.b64encode(hmac.digest(server_key, EXCHANGE, "sha256")).decode() == SERVER_SIGNATURE


def test_each_mechanism_has_its_hash() -> None:
    lengths = {each: len(salted_password(each, PASSWORD, SALT, 4096)) for each in Mechanism}
    assert lengths == {Mechanism.SCRAM_SHA_256: hashlib.sha256().digest_size, Mechanism.SCRAM_SHA_512: 64}
    assert [each.mechanism_name for each in Mechanism] == ["SCRAM-SHA-256", "SCRAM-SHA-512"]


async def test_only_salted_passwords_are_sent() -> None:
    async def answer(header: RequestHeader, request: Request) -> Response:
        if isinstance(request, MetadataRequest):
            return metadata([broker])
        assert isinstance(request, AlterUserScramCredentialsRequest)
        results = [
            AlterUserScramCredentialsResult(user="alice", error_code=0, error_message=None),
            AlterUserScramCredentialsResult(user="bob", error_code=91, error_message="no such credential"),
        ]
        return AlterUserScramCredentialsResponse(results=results)

    broker = ScriptedBroker(answer)
    async with listening(broker), open_client(ClientConfig({"bootstrap.servers": broker.bootstrap})) as client:
        wanted = [Upsertion("alice", Mechanism.SCRAM_SHA_256, PASSWORD, 5000)] * 2
        results = await alter_users(client, [Deletion("bob", Mechanism.SCRAM_SHA_512)], wanted)
    assert results["alice"] is None
    assert results["bob"] is not None
    assert (results["bob"].code, results["bob"].detail) == (ErrorCode.RESOURCE_NOT_FOUND, "no such credential")
    sent = broker.requests[-1]
    assert isinstance(sent, AlterUserScramCredentialsRequest)
    assert [(each.name, each.mechanism) for each in sent.deletions] == [("bob", 2)]
    first, second = sent.upsertions
    assert (first.name, first.mechanism, first.iterations) == ("alice", 1, 5000)
    assert bytes(first.salt) != bytes(second.salt)
    for each in sent.upsertions:
        assert bytes(each.salted_password) == hashlib.pbkdf2_hmac("sha256", PASSWORD, bytes(each.salt), 5000)


async def test_users_are_described_with_an_error_for_each_missing_one() -> None:
    async def answer(header: RequestHeader, request: Request) -> Response:
        info = [CredentialInfo(mechanism=2, iterations=4096)]
        results = [
            DescribeUserScramCredentialsResult(user="alice", error_code=0, error_message=None, credential_infos=info),
            DescribeUserScramCredentialsResult(user="bob", error_code=91, error_message="gone", credential_infos=[]),
        ]
        return DescribeUserScramCredentialsResponse(error_code=0, error_message=None, results=results)

    broker = ScriptedBroker(answer)
    async with listening(broker), open_client(ClientConfig({"bootstrap.servers": broker.bootstrap})) as client:
        found = await describe_users(client, ["alice", "bob"])
        everybody = await describe_users(client)
    assert found["alice"] == [Credential(Mechanism.SCRAM_SHA_512, 4096)]
    assert isinstance(found["bob"], KafkaError)
    asked = [each for each in broker.requests if isinstance(each, DescribeUserScramCredentialsRequest)]
    assert [each.name for each in asked[0].users or ()] == ["alice", "bob"]
    assert asked[1].users is None
    assert list(everybody) == ["alice", "bob"]
