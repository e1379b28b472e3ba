"""`ottla acls`: list, add and remove access control lists.

Counterpart in Kafka: kafka-acls.sh.
"""

from collections.abc import Callable, Iterable, Sequence
from functools import wraps
from itertools import product
from typing import Any, Final, NamedTuple, TypeVar

import click

from ottla.client.admin.acls import (
    ANY_HOST,
    CLUSTER_NAME,
    OPERATIONS,
    Acl,
    AclFilter,
    AclOperation,
    AclPattern,
    AclPermission,
    AclResource,
    AclTarget,
    consumer_acls,
    create_acls,
    delete_acls,
    describe_acls,
    producer_acls,
)
from ottla.client.cluster import Client
from ottla.scripts.terminal.names import GROUP_NAME, TOPIC_NAME
from ottla.scripts.terminal.options import DRY_RUN, YES, asks_cluster
from ottla.scripts.terminal.output import ERROR
from ottla.scripts.terminal.principals import read_principal
from ottla.scripts.terminal.session import Session
from ottla.wire.errors import KafkaError

F = TypeVar("F", bound=Callable[..., Any])
_COLUMNS: Final = ("resource_type", "resource", "pattern", "principal", "host", "operation", "permission")
_OF_FILTERS: Final = (AclOperation.UNKNOWN, AclOperation.ANY)
_WORDS: Final = {each.name.lower().replace("_", "-"): each for each in AclOperation if each not in _OF_FILTERS}

_RESOURCES: Final = (
    ("topic", AclResource.TOPIC, TOPIC_NAME, "Name a topic; '*' stands for all topics."),
    ("group", AclResource.GROUP, GROUP_NAME, "Name a group; '*' stands for all groups."),
    ("transactional-id", AclResource.TRANSACTIONAL_ID, click.STRING, "Name a transactional id."),
    ("delegation-token", AclResource.DELEGATION_TOKEN, click.STRING, "Name a delegation token by its id."),
    ("user", AclResource.USER, click.STRING, "Name a user whose tokens the entry is for, such as User:alice."),
)
_CLUSTER: Final = click.option("--cluster", is_flag=True, help="Name the cluster itself.")
_HOST: Final = click.option(
    "--host", "hosts", multiple=True, metavar="ADDRESS", help="Only for clients at this address. The default is any."
)
_OPERATION: Final = click.option(
    "--operation",
    "operations",
    multiple=True,
    type=click.Choice(list(_WORDS), case_sensitive=False),
    metavar="OPERATION",
    help="Only for this operation, such as read or alter-configs.",
)
_PRODUCER: Final = click.option(
    "--producer", is_flag=True, help="All operations that a producer needs, on --topic and --transactional-id."
)
_CONSUMER: Final = click.option(
    "--consumer", is_flag=True, help="All operations that a consumer needs, on --topic and --group."
)
_MATCHING: Final = click.option(
    "--pattern",
    type=click.Choice(["any", "match", "literal", "prefixed"]),
    default="any",
    show_default=True,
    help="literal, prefixed or any: entries with exactly this name; match: entries that apply to this name.",
)


_Name = tuple[AclResource, str | None, AclPattern]
_ANYTHING: Final[_Name] = (AclResource.ANY, None, AclPattern.ANY)


class _Criteria(NamedTuple):
    """The options that choose or describe entries."""

    resources: Sequence[tuple[AclResource, str]]
    allowed: Sequence[str]
    denied: Sequence[str]
    hosts: Sequence[str]
    operations: Sequence[AclOperation]
    pattern: AclPattern
    is_producer: bool = False
    is_consumer: bool = False

    @property
    def targets(self) -> list[AclTarget]:
        """Return the resources with their pattern; the cluster is always literal."""
        return [
            AclTarget(kind, name, AclPattern.LITERAL if kind is AclResource.CLUSTER else self.pattern)
            for kind, name in self.resources
        ]

    @property
    def pairs(self) -> list[tuple[str, AclPermission]]:
        """Return principals with their permission."""
        allowed = [(each, AclPermission.ALLOW) for each in self.allowed]
        return allowed + [(each, AclPermission.DENY) for each in self.denied]


def _takes_criteria(command: F) -> F:
    """Add the options that name resources, hosts and operations; the command gets them as its `criteria`."""

    @wraps(command)
    def with_criteria(
        *, cluster: bool, hosts: Sequence[str], operations: Sequence[str], pattern: str, **options: Any
    ) -> None:
        named = [(kind, name) for key, kind, _, _ in _RESOURCES for name in options.pop(key.replace("-", "_"))]
        if cluster:
            named.append((AclResource.CLUSTER, CLUSTER_NAME))
        criteria = _Criteria(
            named,
            options.pop("allowed", ()),
            options.pop("denied", ()),
            hosts,
            [_WORDS[each] for each in operations],
            AclPattern[pattern.upper()],
            options.pop("producer", False),
            options.pop("consumer", False),
        )
        command(criteria=criteria, **options)

    wrapped: Any = with_criteria
    for option in (_OPERATION, _HOST, _CLUSTER):
        wrapped = option(wrapped)
    for key, _, kind, text in reversed(_RESOURCES):
        wrapped = click.option(f"--{key}", multiple=True, metavar="NAME", type=kind, help=text)(wrapped)
    return wrapped  # type: ignore[no-any-return]


@click.group()
def acls() -> None:
    """List, add and remove access control lists: who may do what."""


@acls.command("list")
@click.option(
    "--principal",
    "principals",
    multiple=True,
    type=read_principal,
    metavar="TYPE:NAME",
    help="Only for this principal.",
)
@click.option("--permission", type=click.Choice(["allow", "deny"]), help="Only entries that allow, or that deny.")
@_MATCHING
@_takes_criteria
@asks_cluster
def list_command(session: Session, criteria: _Criteria, principals: Sequence[str], permission: str | None) -> None:
    """List entries: all, or those that match every given option."""
    wanted = AclPermission.ANY if permission is None else AclPermission[permission.upper()]
    named: Sequence[str | None] = principals or [None]
    pairs = [(each, wanted) for each in named]
    session.run(_list, _filters(criteria, pairs))


async def _list(client: Client, session: Session, filters: Sequence[AclFilter]) -> None:
    session.out.begin(*_COLUMNS)
    for acl in await _found(client, filters):
        session.out.row(**_as_row(acl))


async def _found(client: Client, filters: Sequence[AclFilter]) -> list[Acl]:
    """Return the entries that match any of the filters, sorted."""
    return sorted({acl for each in filters for acl in await describe_acls(client, each)})


def _filters(
    criteria: _Criteria, pairs: Sequence[tuple[str | None, AclPermission]] = ((None, AclPermission.ANY),)
) -> list[AclFilter]:
    """Return one filter for each combination of resources, hosts, operations and principals."""
    hosts: Sequence[str | None] = criteria.hosts or [None]
    found = []
    for (kind, name, pattern), operations in _operations(criteria):
        for (principal, permission), host, operation in product(pairs, hosts, operations):
            found.append(AclFilter(kind, name, pattern, principal, host, operation, permission))
    return list(dict.fromkeys(found))


def _operations(criteria: _Criteria) -> Iterable[tuple[_Name, Sequence[AclOperation]]]:
    """Return the operations for each named resource, or for any resource if none is named."""
    if not criteria.is_producer and not criteria.is_consumer:
        operations = criteria.operations or [AclOperation.ANY]
        named: Sequence[_Name] = criteria.targets or [_ANYTHING]
        return [(each, operations) for each in named]
    by_type: dict[AclResource, list[AclTarget]] = {}
    for each in criteria.targets:
        by_type.setdefault(each.type, []).append(each)
    topics = by_type.pop(AclResource.TOPIC, [])
    found: list[tuple[_Name, Sequence[AclOperation]]] = []
    if criteria.is_producer:
        ids = by_type.pop(AclResource.TRANSACTIONAL_ID, [])
        found += producer_acls(topics, ids, idempotent=False).items()
    if criteria.is_consumer:
        groups = by_type.pop(AclResource.GROUP, [])
        found += consumer_acls(topics, groups).items()
        topics = topics if groups else []
    if criteria.operations or by_type or not topics:
        raise click.UsageError(
            "--producer needs --topic and may have --transactional-id, --consumer needs --topic and --group; no other "
            "resource and no --operation may stand beside them"
        )
    return found


def _as_row(acl: Acl) -> dict[str, str]:
    return {
        "resource_type": acl.target.type.name,
        "resource": acl.target.name,
        "pattern": acl.target.pattern.name,
        "principal": acl.principal,
        "host": acl.host,
        "operation": acl.operation.name,
        "permission": acl.permission.name,
    }


_ALLOW: Final = click.option(
    "--allow", "allowed", multiple=True, type=read_principal, metavar="TYPE:NAME", help="Allow this principal."
)
_DENY: Final = click.option(
    "--deny", "denied", multiple=True, type=read_principal, metavar="TYPE:NAME", help="Deny this principal."
)


@acls.command()
@_ALLOW
@_DENY
@_PRODUCER
@_CONSUMER
@click.option(
    "--pattern",
    type=click.Choice(["literal", "prefixed"]),
    default="literal",
    show_default=True,
    help="literal: the resource of this name; prefixed: all resources whose names begin with it.",
)
@_takes_criteria
@DRY_RUN
@asks_cluster
def add(session: Session, criteria: _Criteria, is_dry_run: bool) -> None:
    """Allow or deny operations on resources to principals."""
    if not criteria.pairs:
        raise click.UsageError("name a principal with --allow or --deny, such as --allow User:alice")
    if not criteria.resources:
        raise click.UsageError("name at least one resource, such as --topic orders")
    if not (criteria.operations or criteria.is_producer or criteria.is_consumer):
        raise click.UsageError("name an operation with --operation, --producer or --consumer; --operation all is all")
    for kind, _ in criteria.resources:
        _check_operations(kind, criteria.operations)
    wanted = _filters(criteria._replace(hosts=criteria.hosts or [ANY_HOST]), criteria.pairs)
    session.run(_add, [_entry(each) for each in wanted], is_dry_run)


def _check_operations(kind: AclResource, operations: Iterable[AclOperation]) -> None:
    """Raise UsageError for an operation that a resource type does not have, because brokers accept such entries."""
    valid = (AclOperation.ALL, *OPERATIONS[kind])
    for word, each in _WORDS.items():
        if each in operations and each not in valid:
            known = ", ".join(word for word, operation in _WORDS.items() if operation in valid)
            raise click.UsageError(f"--operation {word}: {kind.name} has only {known}")


def _entry(wanted: AclFilter) -> Acl:
    assert wanted.name is not None
    assert wanted.principal is not None
    assert wanted.host is not None
    target = AclTarget(wanted.type, wanted.name, wanted.pattern)
    return Acl(target, wanted.principal, wanted.host, wanted.operation, wanted.permission)


async def _add(client: Client, session: Session, wanted: Sequence[Acl], is_dry_run: bool) -> None:
    session.dry_run(is_dry_run)
    targets = {each.target for each in wanted}
    there = set(await _found(client, [AclFilter(*each) for each in targets]))
    missing = [each for each in wanted if each not in there]
    results = dict.fromkeys(missing) if is_dry_run or not missing else await create_acls(client, missing)
    session.out.begin(*_COLUMNS, "added", *ERROR)
    for acl in wanted:
        error = results.get(acl)
        session.out.item(error, **_as_row(acl), added=acl not in there and error is None and not is_dry_run)


@acls.command()
@click.option(
    "--principal",
    "principals",
    multiple=True,
    type=read_principal,
    metavar="TYPE:NAME",
    help="Only entries of this principal, those that allow and those that deny.",
)
@_ALLOW
@_DENY
@_PRODUCER
@_CONSUMER
@_MATCHING
@_takes_criteria
@DRY_RUN
@YES
@asks_cluster
def remove(session: Session, criteria: _Criteria, principals: Sequence[str], is_dry_run: bool, yes: bool) -> None:
    """Remove the entries that match every given option."""
    pairs: list[tuple[str | None, AclPermission]] = [(each, AclPermission.ANY) for each in principals]
    pairs += criteria.pairs
    if not pairs and not criteria.resources:
        raise click.UsageError("name a resource or a principal, such as --topic orders")
    session.run(_remove, _filters(criteria, pairs or [(None, AclPermission.ANY)]), is_dry_run, yes)


async def _remove(client: Client, session: Session, filters: Sequence[AclFilter], is_dry_run: bool, yes: bool) -> None:
    found = await _found(client, filters)
    removed = set(found) if is_dry_run else set()
    errors: dict[Acl, KafkaError] = {}
    if found and not session.dry_run(is_dry_run):
        session.confirm(f"Remove {_counted(found)}?", yes=yes)
        for result in (await delete_acls(client, filters)).values():
            if isinstance(result, KafkaError):
                raise result
            removed |= {each.acl for each in result if each.error is None}
            errors |= {each.acl: each.error for each in result if each.error is not None}
    session.out.begin(*_COLUMNS, "removed", *ERROR)
    for acl in sorted({*found, *removed, *errors}):
        session.out.item(errors.get(acl), **_as_row(acl), removed=acl in removed and not is_dry_run)


def _counted(found: Sequence[Acl]) -> str:
    """Return the only entry in words, or the count of several."""
    if len(found) > 1:
        principals = ", ".join(sorted({each.principal for each in found})[:5])
        return f"{len(found)} entries, for {principals}"
    (acl,) = found
    return f"{acl.permission.name} {acl.operation.name} on {acl.target.type.name} {acl.target.name} for {acl.principal}"
