"""kafka-acls: add, remove or list access control lists.

Kafka's tool prints resources and entries in another order in each run, because its hash maps have enumerations as keys.
Here they are in the order of the flags. Counterparts: org.apache.kafka.tools.AclCommand, kafka.admin.AclCommand.
"""

import sys
from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from functools import partial
from typing import Final

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
from ottla.client.admin.cluster import use_controllers
from ottla.client.cluster import ANY, CONTROLLER, Client, Target
from ottla.scripts.kafka.calls import client_config, reached
from ottla.scripts.kafka.face import Face, JavaError, ToolExit, illegal_argument
from ottla.scripts.kafka.flags import (
    HELP,
    VERSION,
    Flag,
    Parsed,
    check_invalid,
    check_required,
    flag,
    maybe_print_help_or_version,
    parse,
    print_usage_and_exit,
)
from ottla.wire.errors import KafkaError

_PATTERNS: Final = {each.name: each for each in AclPattern if each is not AclPattern.UNKNOWN}
_FLAGS: Final[Sequence[Flag]] = (
    HELP,
    VERSION,
    flag("bootstrap-server", argument="server to connect to", help="The brokers to ask."),
    flag("command-config", argument="command-config", help="A file of client properties.", is_optional_argument=True),
    flag("topic", argument="topic", help="A topic; '*' stands for all of them."),
    flag("cluster", help="The cluster."),
    flag("group", argument="group", help="A consumer group; '*' stands for all of them."),
    flag("transactional-id", argument="transactional-id", help="A transactional id; '*' stands for all of them."),
    flag("idempotent", help="With --producer: also allow idempotent writes."),
    flag("delegation-token", argument="delegation-token", help="The id of a token; '*' stands for all of them."),
    flag("user-principal", argument="user-principal", help="A user for whom tokens are created or described."),
    flag(
        "resource-pattern-type",
        argument="ANY|MATCH|LITERAL|PREFIXED",
        help="How names are meant. ANY and MATCH are for --list and --remove.",
        default="LITERAL",
    ),
    flag("add", help="Add entries."),
    flag("remove", help="Remove entries."),
    flag("list", help="List entries."),
    flag("operation", argument="String", help="What is allowed or denied; may be repeated.", default="All"),
    flag("allow-principal", argument="allow-principal", help="Allow it to this principal, such as User:alice."),
    flag("deny-principal", argument="deny-principal", help="Deny it to this principal, such as User:alice."),
    flag("principal", argument="principal", help="With --list: only entries of this one.", is_optional_argument=True),
    flag("allow-host", argument="allow-host", help="Where an allowed principal may come from. Default: anywhere."),
    flag("deny-host", argument="deny-host", help="Where a denied principal comes from. Default: anywhere."),
    flag("producer", help="All that a producer needs."),
    flag("consumer", help="All that a consumer needs."),
    flag("force", help="Do not ask first."),
)
_NEWER: Final = (flag("bootstrap-controller", argument="controller to connect to", help="The controllers to ask."),)
_OLDER: Final = (
    flag("authorizer", argument="authorizer", help="Not supported: use --bootstrap-server."),
    flag("authorizer-properties", argument="authorizer-properties", help="Not supported: use --bootstrap-server."),
    flag("zk-tls-config-file", argument="Authorizer ZooKeeper TLS configuration", help="Not supported."),
)
_RESOURCE_FLAGS: Final = (
    ("topic", AclResource.TOPIC),
    ("group", AclResource.GROUP),
    ("transactional-id", AclResource.TRANSACTIONAL_ID),
    ("delegation-token", AclResource.DELEGATION_TOKEN),
    ("user-principal", AclResource.USER),
)
_ABOUT: Final = "This tool helps to manage acls on kafka."
_WITHOUT_BROKER: Final = (
    "Warning: support for ACL configuration directly through the authorizer is deprecated and will be removed in a "
    "future release. Please use --bootstrap-server instead to set ACLs through the admin client."
)
_CLUSTER: Final = AclTarget(AclResource.CLUSTER, CLUSTER_NAME)
_NO_PRINCIPAL: Final = "You must specify one of: --allow-principal, --deny-principal when trying to add ACLs."
_NO_RESOURCE: Final = (
    "You must provide at least one resource: --topic <topic> or --cluster or --group <group> or "
    "--delegation-token <Delegation Token ID>"
)
# An entry without its resource.
_Entry = tuple[str, str, AclOperation, AclPermission]
_Work = Callable[[Client], Awaitable[None]]


def main(arguments: Sequence[str], face: Face) -> int:
    """Run the tool."""
    command = _Command(face)
    command.parse(arguments)
    try:
        command.execute()
    except JavaError as error:
        face.print(f"Error while executing ACL command: {_message(error)}")
        for line in error.trace():
            face.print(line)
        face.print()
        return 1
    return 0


def _message(error: JavaError) -> str:
    return "null" if error.message is None else error.message


class _Command:
    """One command line of the tool, parsed, and the methods that carry it out."""

    def __init__(self, face: Face) -> None:
        self._face = face
        self._flags = (*_FLAGS, *(_OLDER if face.is_3_9 else _NEWER))
        self._parsed = Parsed(self._flags)
        self._target: Target = ANY

    def parse(self, arguments: Sequence[str]) -> None:
        """Read and check the command line. ToolExit if it is invalid."""
        try:
            self._parsed = parse(self._flags, arguments)
        except JavaError as error:
            if self._face.is_3_9:
                raise
            raise self._usage(_message(error)) from None
        maybe_print_help_or_version(self._face, self._flags, self._parsed, arguments, _ABOUT)
        self._check_servers()
        self._check_actions()

    def _usage(self, message: str) -> ToolExit:
        return print_usage_and_exit(self._face, self._flags, message)

    def _check_servers(self) -> None:
        has = self._parsed.has
        if not self._face.is_3_9:
            if has("bootstrap-server") == has("bootstrap-controller"):
                one = "Only one" if has("bootstrap-server") else "One"
                raise self._usage(f"{one} of --bootstrap-server or --bootstrap-controller must be specified")
            return
        if has("bootstrap-server") and has("authorizer"):
            raise self._usage("Only one of --bootstrap-server or --authorizer must be specified")
        if not has("bootstrap-server"):
            check_required(self._face, self._flags, self._parsed, "authorizer-properties")
            self._face.complain(_WITHOUT_BROKER)
            if has("command-config"):
                raise self._usage("The --command-config option can only be used with --bootstrap-server option")
        elif has("authorizer-properties"):
            raise self._usage("The --authorizer-properties option can only be used with --authorizer option")

    def _check_actions(self) -> None:
        has = self._parsed.has
        if sum(map(has, ("add", "remove", "list"))) != 1:
            raise self._usage("Command must include exactly one action: --list, --add, --remove. ")
        made = ("producer", "consumer", "allow-host", "allow-principal", "deny-host", "deny-principal")
        check_invalid(self._face, self._flags, self._parsed, "list", made)
        for role in ("producer", "consumer"):
            by_hand = ("operation", "deny-principal", "deny-host")
            check_invalid(self._face, self._flags, self._parsed, role, by_hand)
        if has("principal") and not has("list"):
            raise self._usage("The --principal option is only available if --list is set")
        if has("producer") and not has("topic"):
            raise self._usage("With --producer you must specify a --topic")
        if has("idempotent") and not has("producer"):
            raise self._usage("The --idempotent option is only available if --producer is set")
        is_complete = has("topic") and has("group")
        is_beside = not has("producer") and (has("cluster") or has("transactional-id"))
        if has("consumer") and (not is_complete or is_beside):
            raise self._usage(
                "With --consumer you must specify a --topic and a --group and no --cluster or --transactional-id "
                "option should be specified."
            )

    def execute(self) -> None:
        """Carry out the command line."""
        parsed = self._parsed
        if not parsed.has("bootstrap-server") and self._face.is_3_9:
            self._face.complain("ACLs in ZooKeeper are not supported without a broker: give --bootstrap-server.")
            raise ToolExit(1)
        where = "bootstrap-server" if parsed.has("bootstrap-server") else "bootstrap-controller"
        if parsed.has("command-config") and parsed.value("command-config") is None:
            self._face.print("Did not load any properties since the property file is not specified")
        call = "describeAcls"
        work: _Work = self._list
        if parsed.has("add"):
            call = "createAcls" if self._face.is_3_9 else call
            work = partial(self._add, self._added())
        elif parsed.has("remove"):
            call, work = "deleteAcls", partial(self._remove, self._wanted())
        if where == "bootstrap-controller":
            self._target, work = CONTROLLER, partial(_at_controllers, work)
        config = client_config(self._face, parsed.value(where), parsed.value("command-config"))
        reached(self._face, config, call, work)

    # Entries of the flags

    def _pattern(self) -> AclPattern:
        text = self._parsed.value("resource-pattern-type")
        found = _PATTERNS.get(text.upper())
        if found is None:
            cause = f"Value [{text}] is not one of [{'|'.join(_PATTERNS)}]"
            if text.upper() == "UNKNOWN":
                cause = f"Unknown resource-pattern-type: {text}"
            raise JavaError(
                "joptsimple.OptionArgumentConversionException",
                f"Cannot parse argument '{text}' of option resource-pattern-type",
                JavaError("joptsimple.ValueConversionException", cause),
            )
        return found

    def _targets(self, *, required: bool = True) -> list[AclTarget]:
        parsed, pattern = self._parsed, self._pattern()
        found = []
        for name, kind in _RESOURCE_FLAGS:
            texts = parsed.values(name)
            is_exact = kind is AclResource.TRANSACTIONAL_ID
            found += [AclTarget(kind, text if is_exact else text.strip(), pattern) for text in texts]
        if pattern is AclPattern.LITERAL and (parsed.has("cluster") or parsed.has("idempotent")):
            found.append(_CLUSTER)
        if required and not found:
            raise self._usage(_NO_RESOURCE)
        return list(dict.fromkeys(found))

    def _principals(self, name: str) -> list[str]:
        found = []
        for text in self._parsed.values(name):
            kind, colon, rest = text.strip().partition(":")
            if not colon:
                raise illegal_argument(
                    f"expected a string in format principalType:principalName but got {text.strip()}"
                )
            found.append(f"{kind}:{rest}")
        return list(dict.fromkeys(found))

    def _hosts(self, name: str, principals: Sequence[str]) -> list[str]:
        given = [text.strip() for text in self._parsed.values(name)]
        return given or ([ANY_HOST] if principals else [])

    def _entries(self, operations: Iterable[AclOperation]) -> list[_Entry]:
        """Return the entries of all principals and hosts with these operations."""
        found = []
        allowed, denied = self._principals("allow-principal"), self._principals("deny-principal")
        for principals, hosts, permission in (
            (allowed, self._hosts("allow-host", allowed), AclPermission.ALLOW),
            (denied, self._hosts("deny-host", denied), AclPermission.DENY),
        ):
            for principal in principals:
                for operation in operations:
                    if operation is AclOperation.ANY:
                        raise illegal_argument("operation must not be ANY")
                    found += [(principal, host, operation, permission) for host in hosts]
        return list(dict.fromkeys(found))

    def _operations(self) -> list[AclOperation]:
        known = {each.words.upper(): each for each in AclOperation}
        if self._face.is_3_9:
            del known["TWOPHASECOMMIT"]
        texts = (text.strip().upper() for text in self._parsed.values("operation"))
        return list(dict.fromkeys(known.get(text, AclOperation.UNKNOWN) for text in texts))

    def _wanted(self) -> dict[AclTarget, list[_Entry]]:
        """Return the entries for each resource. ToolExit if a resource has no such operation."""
        parsed = self._parsed
        found: dict[AclTarget, list[_Entry]] = {}
        if not parsed.has("producer") and not parsed.has("consumer"):
            entries = self._entries(self._operations())
            found.update((each, entries) for each in self._targets())
        for needs in self._roles():
            for target, operations in needs.items():
                before = found.get(target, [])
                found[target] = list(dict.fromkeys([*before, *self._entries(operations)]))
        for target, entries in found.items():
            self._check_operations(target.type, {operation for _, _, operation, _ in entries})
        return found

    def _roles(self) -> Sequence[Mapping[AclTarget, Sequence[AclOperation]]]:
        parsed = self._parsed
        if not parsed.has("producer") and not parsed.has("consumer"):
            return []
        by_type: dict[AclResource, list[AclTarget]] = {}
        for each in self._targets():
            by_type.setdefault(each.type, []).append(each)
        topics = by_type.get(AclResource.TOPIC, [])
        found = []
        if parsed.has("producer"):
            ids = by_type.get(AclResource.TRANSACTIONAL_ID, [])
            found.append(producer_acls(topics, ids, idempotent=parsed.has("idempotent")))
        if parsed.has("consumer"):
            found.append(consumer_acls(topics, by_type.get(AclResource.GROUP, [])))
        return found

    def _check_operations(self, kind: AclResource, used: set[AclOperation]) -> None:
        valid = [*OPERATIONS[kind], AclOperation.ALL]
        if self._face.is_3_9:
            added_later = {
                AclResource.GROUP: (AclOperation.DESCRIBE_CONFIGS, AclOperation.ALTER_CONFIGS),
                AclResource.TRANSACTIONAL_ID: (AclOperation.TWO_PHASE_COMMIT,),
            }
            valid = [each for each in valid if each not in added_later.get(kind, ())]
        if used <= set(valid):
            return
        shown = f"[{', '.join(each.name for each in valid)}]"
        if self._face.is_3_9:
            shown = ", ".join(each.words for each in valid)
        raise self._usage(f"ResourceType {kind.name} only supports operations {shown}")

    def _added(self) -> dict[AclTarget, list[_Entry]]:
        pattern = self._pattern()
        if pattern not in (AclPattern.LITERAL, AclPattern.PREFIXED):
            raise self._usage(f"A '--resource-pattern-type' value of '{pattern.name}' is not valid when adding acls.")
        found = self._wanted()
        if not all(found.values()):
            raise self._usage(_NO_PRINCIPAL)
        return found

    # Requests

    async def _add(self, wanted: Mapping[AclTarget, Sequence[_Entry]], client: Client) -> None:
        for target, entries in wanted.items():
            acls = [Acl(target, *entry) for entry in entries]
            if not self._face.is_3_9:
                there = set(await describe_acls(client, _filter(target), self._target))
                for each in acls:
                    if each in there:
                        self._face.print(f"Acl (pattern={_shown(target)}, entry={_entry(each)}) already exists.")
                acls = [each for each in acls if each not in there]
            if acls:
                lines = "\n".join(f"\t{_entry(each)}" for each in acls)
                end = " \n" if self._face.is_3_9 else "\n"
                self._face.print(f"Adding ACLs for resource `{_shown(target)}`: \n {lines}{end}")
                for error in (await create_acls(client, acls, self._target)).values():
                    if error is not None:
                        raise error

    async def _remove(self, wanted: Mapping[AclTarget, Sequence[_Entry]], client: Client) -> None:
        for target, entries in wanted.items():
            question = f"Are you sure you want to delete all ACLs for resource filter `{_shown(target)}`? (y/n)"
            if entries:
                lines = "\n".join(f"\t{_entry(Acl(target, *entry))}" for entry in entries)
                end = " " if self._face.is_3_9 else ""
                question = (
                    f"Are you sure you want to remove ACLs: \n {lines}{end}\n from resource filter "
                    f"`{_shown(target)}`? (y/n)"
                )
            if not self._is_confirmed(question):
                continue
            filters = [_filter(target, *entry) for entry in entries] or [_filter(target)]
            for result in (await delete_acls(client, filters, self._target)).values():
                if isinstance(result, KafkaError):
                    raise result
                for each in result:
                    if each.error is not None:
                        raise each.error

    def _is_confirmed(self, question: str) -> bool:
        if self._parsed.has("force"):
            return True
        self._face.print(question)
        self._face.flush()
        caller = "scala.io.StdIn$.readLine()"
        called = "String.equalsIgnoreCase(String)"
        answer = ""
        if self._face.is_3_9 or (sys.stdin.isatty() and sys.stdout.isatty()):
            answer = sys.stdin.readline()
        else:
            caller, called = "java.lang.System.console()", "java.io.Console.readLine()"
        if not answer:
            raise JavaError(
                "java.lang.NullPointerException",
                f'Cannot invoke "{called}" because the return value of "{caller}" is null',
            )
        return answer.rstrip("\n").lower() == "y"

    async def _list(self, client: Client) -> None:
        filters = [_filter(each) for each in self._targets(required=False)] or [AclFilter()]
        principals = self._principals("principal")
        found: dict[AclTarget, dict[Acl, None]] = {}
        for each in filters:
            for acl in await describe_acls(client, each, self._target):
                found.setdefault(acl.target, {})[acl] = None
        if not principals:
            self._print({target: list(acls) for target, acls in found.items()})
        for principal in principals:
            self._face.print(f"ACLs for principal `{principal}`")
            own = {target: [each for each in acls if each.principal == principal] for target, acls in found.items()}
            self._print({target: acls for target, acls in own.items() if acls})

    def _print(self, acls: Mapping[AclTarget, Sequence[Acl]]) -> None:
        before, after = (" \n ", " \n") if self._face.is_3_9 else ("\n", "\n")
        for target, entries in acls.items():
            lines = "\n".join(f"\t{_entry(each)}" for each in entries)
            self._face.print(f"Current ACLs for resource `{_shown(target)}`:{before}{lines}{after}")


async def _at_controllers(work: _Work, client: Client) -> None:
    await use_controllers(client)
    await work(client)


def _filter(
    target: AclTarget,
    principal: str | None = None,
    host: str | None = None,
    operation: AclOperation = AclOperation.ANY,
    permission: AclPermission = AclPermission.ANY,
) -> AclFilter:
    return AclFilter(target.type, target.name, target.pattern, principal, host, operation, permission)


def _shown(target: AclTarget) -> str:
    return f"ResourcePattern(resourceType={target.type.name}, name={target.name}, patternType={target.pattern.name})"


def _entry(acl: Acl) -> str:
    return (
        f"(principal={acl.principal}, host={acl.host}, operation={acl.operation.name}, "
        f"permissionType={acl.permission.name})"
    )
