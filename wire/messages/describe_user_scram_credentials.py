"""DescribeUserScramCredentials: which SCRAM credentials users have; never the credentials themselves.

0   the first form
"""

from collections.abc import Sequence
from typing import Annotated

from ottla.wire.api_keys import ApiKey
from ottla.wire.schema import Request, Response, Struct, V
from ottla.wire.types import Int8, Int16, Int32, String


class UserName(Struct):
    """A user to describe."""

    name: String


class DescribeUserScramCredentialsRequest(
    Request, api_key=ApiKey.DESCRIBE_USER_SCRAM_CREDENTIALS, versions="0", flexible="0+"
):
    """Describe credentials; null or no users mean all."""

    users: Annotated[Sequence[UserName] | None, V(nullable="0+")]


class CredentialInfo(Struct):
    """A credential: mechanism 1 is SCRAM-SHA-256, 2 is SCRAM-SHA-512."""

    mechanism: Int8
    iterations: Int32


class DescribeUserScramCredentialsResult(Struct):
    """The credentials of one user."""

    user: String
    error_code: Int16
    error_message: Annotated[String | None, V(nullable="0+")]
    credential_infos: Sequence[CredentialInfo]


class DescribeUserScramCredentialsResponse(
    Response, api_key=ApiKey.DESCRIBE_USER_SCRAM_CREDENTIALS, versions="0", flexible="0+"
):
    """The credentials."""

    throttle_time_ms: Int32 = 0
    error_code: Int16
    error_message: Annotated[String | None, V(nullable="0+")]
    results: Sequence[DescribeUserScramCredentialsResult]
