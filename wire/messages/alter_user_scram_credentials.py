"""AlterUserScramCredentials: set or delete SCRAM credentials of users.

0   the first form
"""

from collections.abc import Sequence
from typing import Annotated

from ottla.wire.api_keys import ApiKey
from ottla.wire.schema import Request, Response, Struct, V
from ottla.wire.types import Bytes, Int8, Int16, Int32, String


class ScramCredentialDeletion(Struct):
    """A credential to delete: mechanism 1 is SCRAM-SHA-256, 2 is SCRAM-SHA-512."""

    name: String
    mechanism: Int8


class ScramCredentialUpsertion(Struct):
    """A credential to set; the password arrives salted and iterated, never as it is."""

    name: String
    mechanism: Int8
    iterations: Int32
    salt: Bytes
    salted_password: Bytes


class AlterUserScramCredentialsRequest(
    Request, api_key=ApiKey.ALTER_USER_SCRAM_CREDENTIALS, versions="0", flexible="0+"
):
    """Alter credentials."""

    deletions: Sequence[ScramCredentialDeletion]
    upsertions: Sequence[ScramCredentialUpsertion]


class AlterUserScramCredentialsResult(Struct):
    """The result for one user."""

    user: String
    error_code: Int16
    error_message: Annotated[String | None, V(nullable="0+")]


class AlterUserScramCredentialsResponse(
    Response, api_key=ApiKey.ALTER_USER_SCRAM_CREDENTIALS, versions="0", flexible="0+"
):
    """The results for the users."""

    throttle_time_ms: Int32 = 0
    results: Sequence[AlterUserScramCredentialsResult]
