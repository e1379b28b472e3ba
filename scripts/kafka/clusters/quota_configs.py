"""kafka-configs for users, clients and addresses: their quotas, and the SCRAM credentials of users.

Must not know resources with configs, nor flags. Counterpart: kafka.admin.ConfigCommand.
"""

import re
from collections.abc import Mapping, Sequence
from typing import Final, NamedTuple

from ottla.client.admin import quotas
from ottla.client.admin.quotas import IP_QUOTAS, USER_QUOTAS, Part, Wanted, alter_quotas, describe_quotas
from ottla.client.admin.users import ITERATIONS, MECHANISMS, Deletion, Upsertion, alter_users, describe_users
from ottla.client.cluster import Client
from ottla.scripts.kafka.calls import asked, first_error
from ottla.scripts.kafka.face import Face, JavaError, as_java, execution, illegal_argument
from ottla.scripts.kafka.java.hashes import by_string_hash, double_text, hash_order, string_hash
from ottla.scripts.kafka.java.numbers import DOUBLE, INTEGER
from ottla.wire.errors import ErrorCode, KafkaError

USERS: Final = "users"
CLIENTS: Final = "clients"
IPS: Final = "ips"
_PARTS: Final = {USERS: quotas.USER, CLIENTS: quotas.CLIENT_ID, IPS: quotas.IP}
_SHOWN: Final = {quotas.USER: "user-principal", quotas.CLIENT_ID: "client-id", quotas.IP: "ip"}
_CREDENTIAL: Final = re.compile(r"(?:iterations=(-?[0-9]*),)?password=(.*)")
_SCRAM_NAME: Final = {"SCRAM-SHA-256": "SCRAM_SHA_256", "SCRAM-SHA-512": "SCRAM_SHA_512"}


class Entity(NamedTuple):
    """The entity of the flags: types, and a name for each, which is empty for the default of its type."""

    types: list[str]
    names: list[str]


def invalid_configuration(message: str) -> JavaError:
    """Return an InvalidConfigurationException."""
    return JavaError("org.apache.kafka.common.errors.InvalidConfigurationException", message)


# Alter


async def alter(client: Client, entity: Entity, add: Mapping[str, str], delete: Sequence[str]) -> None:
    """Set and delete quotas, or credentials."""
    if entity.types[0] == IPS:
        unknown = [each for each in (*add, *delete) if each not in IP_QUOTAS]
        if unknown:
            raise illegal_argument(
                f"Only connection quota configs can be added for '{IPS}' using --bootstrap-server. Unexpected config "
                f"names: {','.join(dict.fromkeys(unknown))}"
            )
        await _alter_quotas(client, entity, add, delete)
        return
    _check_names(entity, add, delete)
    if any(each in USER_QUOTAS for each in (*add, *delete)):
        await _alter_quotas(client, entity, add, delete)
    else:
        await _alter_credentials(client, entity.names[0], add, delete)


def _check_names(entity: Entity, add: Mapping[str, str], delete: Sequence[str]) -> None:
    """Raise JavaError for keys that users or clients cannot have."""
    is_user = entity.types == [USERS]
    what = "quota and SCRAM credential" if is_user else "quota"
    known = (*USER_QUOTAS, *MECHANISMS) if is_user else USER_QUOTAS
    for done, keys, shown in (("added", list(add), "Set"), ("deleted", list(delete), "ArrayBuffer")):
        unknown = [each for each in keys if each not in known]
        if unknown:
            # The message has unknown keys before those of credentials.
            unknown.sort(key=lambda each: each in MECHANISMS)
            raise illegal_argument(
                f"Only {what} configs can be {done} for '{USERS if is_user else CLIENTS}' using --bootstrap-server. "
                f"Unexpected config names: {shown}({', '.join(unknown)})"
            )
    if not any(each in MECHANISMS for each in (*add, *delete)):
        return
    if not all(entity.names):
        raise illegal_argument(
            "The use of --entity-default or --user-defaults is not allowed with User SCRAM Credentials using "
            "--bootstrap-server."
        )
    if any(each in USER_QUOTAS for each in (*add, *delete)):
        raise illegal_argument(
            f"Cannot alter both quota and SCRAM credential configs simultaneously for '{USERS}' using "
            "--bootstrap-server."
        )


async def _alter_quotas(client: Client, entity: Entity, add: Mapping[str, str], delete: Sequence[str]) -> None:
    found = await _quotas(client, entity)
    old = next(iter(found.values()), {})
    missing = [each for each in delete if each not in old]
    if missing:
        raise invalid_configuration(f"Invalid config(s): {','.join(missing)}")
    values: dict[str, float | None] = {}
    for key, text in add.items():
        try:
            values[key] = DOUBLE.convert(text)
        except ValueError:
            raise illegal_argument(f"Cannot parse quota configuration value for {key}: {text}") from None
    values |= dict.fromkeys(delete)
    pairs = zip(entity.types, entity.names, strict=True)
    changes = {frozenset(Part(_PARTS[kind], name or None) for kind, name in pairs): values}
    first_error(await asked(client, "alterClientQuotas", lambda: alter_quotas(client, changes)))


async def _alter_credentials(client: Client, user: str, add: Mapping[str, str], delete: Sequence[str]) -> None:
    upsertions = [_upsertion(user, mechanism, text) for mechanism, text in add.items()]
    if not all(each.password for each in upsertions):
        message = "Password must not be empty"
        raise execution(JavaError("org.apache.kafka.common.errors.UnacceptableCredentialException", message))
    deletions = [Deletion(user, MECHANISMS[each]) for each in delete]
    results = await asked(client, "alterUserScramCredentials", lambda: alter_users(client, deletions, upsertions))
    first_error(results)


def _upsertion(user: str, mechanism: str, text: str) -> Upsertion:
    found = _CREDENTIAL.fullmatch(text)
    if found is None:
        raise illegal_argument(f"Invalid credential property {_SCRAM_NAME[mechanism]}={text}")
    iterations = ITERATIONS
    if found[1] is not None and found[1] != "-1":
        try:
            iterations = INTEGER.convert(found[1])
        except ValueError as error:
            raise JavaError("java.lang.NumberFormatException", str(error)) from None
    if iterations < ITERATIONS:
        raise illegal_argument(
            f"Iterations {iterations} is less than the minimum {ITERATIONS} required for {mechanism}"
        )
    return Upsertion(user, MECHANISMS[mechanism], found[2].encode(), iterations)


# Describe


async def describe(client: Client, entity: Entity, face: Face) -> None:
    """Print the quotas of an entity, or of all of its types, and the credentials of users."""
    found = await _quotas(client, entity)
    for parts in _ordered(list(found)):
        by_type = {each.type: each.name for each in parts}
        whom = ", ".join(
            f"the default {shown}" if by_type[kind] is None else f"{shown} '{by_type[kind]}'"
            for kind, shown in _SHOWN.items()
            if kind in by_type
        )
        values = found[parts]
        shown = ", ".join(f"{key}={double_text(values[key])}" for key in by_string_hash(values, len(values)))
        face.print(f"Quota configs for {whom} are {shown}")
    if entity.types == [USERS] and "" not in entity.names:
        await _describe_credentials(client, entity.names, face)


async def _quotas(client: Client, entity: Entity) -> dict[quotas.Entity, dict[str, float]]:
    if len(entity.names) > len(entity.types):
        raise illegal_argument("More entity names specified than entity types")
    names: list[str | None] = [*entity.names, *[None] * (len(entity.types) - len(entity.names))]
    wanted = [
        Wanted(_PARTS[kind], name or None, is_any=name is None) for kind, name in zip(entity.types, names, strict=True)
    ]
    return await asked(client, "describeClientQuotas", lambda: describe_quotas(client, wanted, strict=True))


def _ordered(entities: Sequence[quotas.Entity]) -> list[quotas.Entity]:
    """Return entities in the order of a HashMap with these keys."""
    hashes = [31 + sum(string_hash(part.type) ^ string_hash(part.name or "") for part in each) for each in entities]
    return [entities[at] for at in hash_order((each & 0xFFFFFFFF for each in hashes), len(entities))]


async def _describe_credentials(client: Client, names: Sequence[str], face: Face) -> None:
    found = await asked(client, "describeUserScramCredentials", lambda: describe_users(client, names))
    for user, credentials in found.items():
        whom = f"SCRAM credential configs for user-principal '{user}'"
        if not isinstance(credentials, KafkaError):
            shown = ", ".join(f"{each.mechanism.mechanism_name}=iterations={each.iterations}" for each in credentials)
            face.print(f"{whom} are {shown}")
        elif credentials.code != ErrorCode.RESOURCE_NOT_FOUND:
            cause = execution(as_java(credentials))
            face.print(f"Error retrieving {whom}: {cause.java_class.rpartition('.')[2]}: {cause.message}")
