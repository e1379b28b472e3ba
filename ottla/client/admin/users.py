"""SCRAM credentials of users: describing, setting and deleting them.

Owns the salted password, because a password itself is never sent. Must not know the source of a password.
Counterparts in Kafka: ScramMechanism, ScramFormatter, KafkaAdminClient's methods for SCRAM credentials.
"""

import hashlib
import secrets
from collections.abc import Iterable
from enum import IntEnum
from typing import Final, NamedTuple

from ottla.client.cluster import ANY, CONTROLLER, Client, check, kafka_error
from ottla.wire.errors import ErrorCode, KafkaError
from ottla.wire.messages.alter_user_scram_credentials import (
    AlterUserScramCredentialsRequest,
    AlterUserScramCredentialsResponse,
    ScramCredentialDeletion,
    ScramCredentialUpsertion,
)
from ottla.wire.messages.describe_user_scram_credentials import (
    DescribeUserScramCredentialsRequest,
    DescribeUserScramCredentialsResponse,
    UserName,
)

ITERATIONS: Final = 4096
"""The least that a broker accepts, and Kafka's default."""
MOST_ITERATIONS: Final = 16384
_SALT_BYTES: Final = 26


class Mechanism(IntEnum):
    """A SCRAM mechanism by its number in requests."""

    SCRAM_SHA_256 = 1
    SCRAM_SHA_512 = 2

    @property
    def mechanism_name(self) -> str:
        """Return its name in SASL."""
        return self.name.replace("_", "-")

    @property
    def hash_name(self) -> str:
        """Return the name of its hash in hashlib."""
        return self.name.removeprefix("SCRAM_").replace("_", "").lower()


MECHANISMS: Final = {each.mechanism_name: each for each in Mechanism}


class Credential(NamedTuple):
    """A credential without its secrets."""

    mechanism: Mechanism
    iterations: int


class Deletion(NamedTuple):
    """A credential to delete."""

    user: str
    mechanism: Mechanism


class Upsertion(NamedTuple):
    """A credential to set."""

    user: str
    mechanism: Mechanism
    password: bytes
    iterations: int = ITERATIONS


async def describe_users(client: Client, names: Iterable[str] = ()) -> dict[str, list[Credential] | KafkaError]:
    """Return the credentials of users, or the error for each; without names, those of all users."""
    wanted = [UserName(name=each) for each in names]
    request = DescribeUserScramCredentialsRequest(users=wanted or None)
    response = await client.ask(request, ANY, DescribeUserScramCredentialsResponse)
    check(response.error_code, response.error_message)
    return {
        each.user: [Credential(Mechanism(info.mechanism), info.iterations) for info in each.credential_infos]
        if each.error_code == ErrorCode.NONE
        else kafka_error(each.error_code, each.error_message)
        for each in response.results
    }


async def alter_users(
    client: Client, deletions: Iterable[Deletion] = (), upsertions: Iterable[Upsertion] = ()
) -> dict[str, KafkaError | None]:
    """Delete and set credentials; return a result for each user."""
    request = AlterUserScramCredentialsRequest(
        deletions=[ScramCredentialDeletion(name=each.user, mechanism=each.mechanism) for each in deletions],
        upsertions=[_salted(each) for each in upsertions],
    )
    response = await client.ask(request, CONTROLLER, AlterUserScramCredentialsResponse)
    return {
        each.user: None if each.error_code == ErrorCode.NONE else kafka_error(each.error_code, each.error_message)
        for each in response.results
    }


def _salted(credential: Upsertion) -> ScramCredentialUpsertion:
    salt = secrets.token_bytes(_SALT_BYTES)
    return ScramCredentialUpsertion(
        name=credential.user,
        mechanism=credential.mechanism,
        iterations=credential.iterations,
        salt=salt,
        salted_password=salted_password(credential.mechanism, credential.password, salt, credential.iterations),
    )


def salted_password(mechanism: Mechanism, password: bytes, salt: bytes, iterations: int) -> bytes:
    """Return the SaltedPassword of RFC 5802, from which a broker derives its keys."""
    return hashlib.pbkdf2_hmac(mechanism.hash_name, password, salt, iterations)
