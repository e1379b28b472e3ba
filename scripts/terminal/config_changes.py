"""Changes of configs, shown as rows: each key before and after, changed or only checked.

Owns the value after a change. Must not know a command.
"""

from collections.abc import Mapping, Sequence
from typing import Any, Final

from ottla.client.admin.configs import (
    Change,
    ConfigEntry,
    ConfigSource,
    Operation,
    Resource,
    alter_configs,
    describe_with_defaults,
)
from ottla.client.cluster import Client
from ottla.scripts.terminal.output import ERROR
from ottla.scripts.terminal.session import Session
from ottla.wire.errors import KafkaError

_SECRETS: Final = ("password", "jaas.config", "keystore.key")


def is_secret(key: str) -> bool:
    """Whether a key's value is a secret, judged by the key's name."""
    return key.endswith(_SECRETS)


async def change_configs(
    client: Client,
    session: Session,
    resource: Resource,
    changes: Sequence[Change],
    *,
    is_dry_run: bool,
    label: Mapping[str, Any],
    key: str = "key",
) -> None:
    """Change configs of a resource, or only let the broker check the change; add a row for each key.

    A row begins with the columns of `label`, and has the name of the config in the column `key`.
    """
    session.dry_run(is_dry_run)
    session.out.begin(*label, key, "before", "after", *ERROR)
    described = (await describe_with_defaults(client, [resource]))[resource]
    if isinstance(described, KafkaError):
        for change in changes:
            session.out.item(described, **label, **{key: change.key})
        return
    error = (await alter_configs(client, {resource: changes}, validate_only=is_dry_run))[resource]
    entries = {each.name: each for each in described}
    for change in changes:
        entry = entries.get(change.key)
        before = None if entry is None else entry.value
        hidden = is_secret(change.key) or (entry is not None and entry.is_sensitive)
        after = None if hidden else before if error else _after(change, entry, resource)
        session.out.item(error, **label, **{key: change.key}, before=before, after=after)


def _after(change: Change, entry: ConfigEntry | None, resource: Resource) -> str | None:
    """Return the value after a change; None if it is not known."""
    match change.operation:
        case Operation.SET:
            return change.value
        case Operation.DELETE:
            return None if entry is None else entry.default(resource.type)
    items = _items(None if entry is None else _list_to_change(entry, resource))
    given = _items(change.value)
    if change.operation == Operation.APPEND:
        return ",".join([*items, *(each for each in given if each not in items)])
    return ",".join(each for each in items if each not in given)


def _list_to_change(entry: ConfigEntry, resource: Resource) -> str | None:
    """Return the list to which a broker appends: the resource's own value, or Kafka's default."""
    if entry.is_own(resource.type):
        return entry.value
    return next((each.value for each in entry.synonyms if each.source == ConfigSource.DEFAULT_CONFIG), None)


def _items(text: str | None) -> list[str]:
    return [each.strip() for each in text.split(",") if each.strip()] if text else []
