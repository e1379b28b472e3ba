"""kafka-reassign-partitions: move partitions between brokers, and replicas between log directories.

Counterpart: org.apache.kafka.tools.reassign.ReassignPartitionsCommand.
"""

from collections.abc import Iterable, Mapping, Sequence
from typing import Final, NamedTuple

import trio

from ottla.client.admin.cluster import use_controllers
from ottla.client.admin.configs import Change, Resource, ResourceType, alter_configs
from ottla.client.admin.log_dirs import Replica, alter_replica_log_dirs, find_replicas
from ottla.client.admin.reassignments import (
    BROKER_THROTTLES,
    FOLLOWER_RATE,
    LEADER_RATE,
    LOG_DIR_RATE,
    TOPIC_THROTTLES,
    Move,
    Reassignment,
    alter_reassignments,
    list_reassignments,
    moves_of,
    rate_limits,
    replica_throttles,
    throttle_removal,
)
from ottla.client.admin.topics import describe_topics
from ottla.client.cluster import Client
from ottla.scripts.kafka.calls import as_execution, client_config, reached
from ottla.scripts.kafka.clusters.reassignment_files import (
    Wanted,
    check_targets,
    formatted,
    parse_brokers,
    parse_reassignment,
    parse_topics,
    propose,
)
from ottla.scripts.kafka.clusters.reassignment_states import directory_states, joined, partition_states
from ottla.scripts.kafka.face import Face, JavaError, as_java, execution
from ottla.scripts.kafka.failures import TerseError, command_failed, operation_failed
from ottla.scripts.kafka.flags import (
    HELP,
    VERSION,
    Flag,
    Parsed,
    check_required,
    flag,
    maybe_print_help_or_version,
    parse,
    print_usage_and_exit,
)
from ottla.scripts.kafka.java import json_values
from ottla.scripts.kafka.java.hashes import by_number_hash, by_partition_hash, by_string_hash
from ottla.wire.errors import ErrorCode, KafkaError
from ottla.wire.messages.metadata import MetadataResponseTopic
from ottla.wire.types import TopicPartition

_FLAGS: Final[Sequence[Flag]] = (
    HELP,
    VERSION,
    flag("verify", help="Say whether a reassignment is complete; if it is, end the throttle."),
    flag("generate", help="Propose a reassignment."),
    flag("execute", help="Begin a reassignment."),
    flag("cancel", help="Cancel a reassignment that is under way."),
    flag("list", help="List the reassignments that are under way."),
    flag("bootstrap-server", argument="Server(s) to use for bootstrapping", help="The brokers to ask."),
    flag("command-config", argument="Admin client property file", help="A file of client properties."),
    flag(
        "reassignment-json-file",
        argument="manual assignment json file path",
        help="The partitions and their replicas.",
    ),
    flag(
        "topics-to-move-json-file",
        argument="topics to reassign json file path",
        help="The topics to propose a reassignment for.",
    ),
    flag("broker-list", argument="brokerlist", help="The brokers that a proposal takes, parted by commas."),
    flag("bootstrap-controller", argument="bootstrap controller to connect to", help="The controllers to ask."),
    flag("disable-rack-aware", help="Propose without regard to racks."),
    flag("throttle", argument="throttle", type=int, default=-1, help="Bytes a second between brokers."),
    flag(
        "replica-alter-log-dirs-throttle",
        argument="replicaAlterLogDirsThrottle",
        type=int,
        default=-1,
        help="Bytes a second between log directories.",
    ),
    flag("timeout", argument="timeout", type=int, default=10000, help="Milliseconds until log directory moves begin."),
    flag("additional", help="Begin although other reassignments are under way, or change their throttle."),
    flag("preserve-throttles", help="Leave throttles as they are."),
    flag("disallow-replication-factor-change", help="Refuse another number of replicas."),
)
_NOT_IN_3_9: Final = ("bootstrap-controller", "disallow-replication-factor-change")
_ACTIONS: Final = ("generate", "execute", "verify", "cancel", "list")
_REQUIRED: Final[Mapping[str, Sequence[str]]] = {
    "verify": ("reassignment-json-file",),
    "generate": ("topics-to-move-json-file", "broker-list"),
    "execute": ("reassignment-json-file",),
    "cancel": ("reassignment-json-file",),
    "list": (),
}
_PERMITTED: Final[Mapping[str, Sequence[str]]] = {
    "verify": ("preserve-throttles",),
    "generate": ("disable-rack-aware",),
    "execute": (
        "additional",
        "throttle",
        "replica-alter-log-dirs-throttle",
        "timeout",
        "disallow-replication-factor-change",
    ),
    "cancel": ("preserve-throttles", "timeout"),
    "list": (),
}
_EXISTING: Final = (
    "Cannot execute because there is an existing partition assignment.  Use --additional to override this and create a "
    "new partition assignment in addition to the existing one. The --additional flag can also be used to change the "
    "throttle by resubmitting the current reassignment."
)
_RUN_VERIFY: Final = (
    "Warning: You must run --verify periodically, until the reassignment completes, to ensure the throttle is removed."
)
_PAUSE_SECONDS: Final = 0.1
_LISTING: Final = "listPartitionReassignments"


def main(arguments: Sequence[str], face: Face) -> int:
    """Run the tool."""
    action, parsed = _parsed(arguments, face)
    try:
        _run(action, parsed, face)
    except TerseError as error:
        face.print(str(error))
        return 1
    except JavaError as error:
        face.print(f"Error: {error.message}")
        for line in error.trace():
            face.print(line)
        face.print()
        return 1
    return 0


def _parsed(arguments: Sequence[str], face: Face) -> tuple[str, Parsed]:
    flags = [each for each in _FLAGS if not (face.is_3_9 and each.name in _NOT_IN_3_9)]
    parsed = parse(flags, arguments)
    maybe_print_help_or_version(
        face, flags, parsed, arguments, "This tool helps to move topic partitions between replicas."
    )
    chosen = [each for each in _ACTIONS if parsed.has(each)]
    if len(chosen) != 1:
        shown = ", ".join(f"--{each}" for each in _ACTIONS)
        raise print_usage_and_exit(face, flags, f"Command must include exactly one action: {shown}")
    action = chosen[0]
    by_controller = not face.is_3_9 and parsed.has("bootstrap-controller")
    if parsed.has("bootstrap-server") and by_controller:
        message = "Please don't specify both --bootstrap-server and --bootstrap-controller"
        raise print_usage_and_exit(face, flags, message)
    if not parsed.has("bootstrap-server") and not by_controller:
        either = "" if face.is_3_9 else "either "
        other = "" if face.is_3_9 else " or --bootstrap-controller"
        raise print_usage_and_exit(face, flags, f"Please specify {either}--bootstrap-server{other}")
    check_required(face, flags, parsed, *_REQUIRED[action])
    is_for_controllers = by_controller and action in ("cancel", "list")
    where = "bootstrap-controller" if is_for_controllers else "bootstrap-server"
    allowed = {action, where, "command-config", *_REQUIRED[action], *_PERMITTED[action]}
    for each in parsed.given:
        if each not in allowed:
            message = f'Option "{parsed.flag(each)}" can\'t be used with action "{parsed.flag(action)}"'
            raise print_usage_and_exit(face, flags, message)
    return action, parsed


def _run(action: str, parsed: Parsed, face: Face) -> None:
    works = {"verify": _verify, "generate": _generate, "execute": _execute, "cancel": _cancel, "list": _list}
    controllers = None if face.is_3_9 else parsed.value("bootstrap-controller")

    async def work(client: Client) -> None:
        if controllers is not None:
            await use_controllers(client)
        await works[action](client, parsed, face)

    servers, config = controllers or parsed.value("bootstrap-server"), parsed.value("command-config")
    reached(face, client_config(face, servers, config, **{"client.id": "reassign-partitions-tool"}), _LISTING, work)


def _text(parsed: Parsed, option: str = "reassignment-json-file") -> str:
    return json_values.read_file(parsed.value(option))


def _plural(count: int) -> str:
    return "" if count == 1 else "s"


def _raise_first(results: Mapping[Resource, KafkaError | None]) -> None:
    for error in results.values():
        if error is not None:
            raise as_execution(error, "incrementalAlterConfigs")


async def _alter_configs(client: Client, changes: Mapping[Resource, Sequence[Change]]) -> None:
    _raise_first(await alter_configs(client, changes))


# List


async def _list(client: Client, parsed: Parsed, face: Face) -> None:
    found = await list_reassignments(client)
    if not found:
        face.print("No partition reassignments found.")
        return
    face.print("Current partition reassignments:")
    for partition in sorted(found):
        each = found[partition]
        adding = f" adding: {joined(each.adding)}." if each.adding else ""
        removing = f" removing: {joined(each.removing)}." if each.removing else ""
        face.print(f"{partition}: replicas: {joined(each.replicas)}.{adding}{removing}")


# Verify


async def _verify(client: Client, parsed: Parsed, face: Face) -> None:
    wanted = parse_reassignment(_text(parsed), face.release)
    under_way = await list_reassignments(client)
    states = await partition_states(client, wanted, under_way)
    face.print("Status of partition reassignment:")
    for partition in sorted(states):
        face.print(states[partition])
    moves = await directory_states(client, wanted.log_dirs)
    face.print("\n".join(moves[replica].line for replica in sorted(moves, key=lambda it: (it.broker_id, it))))
    is_over = not under_way and all(each.is_done for each in moves.values())
    if is_over and not parsed.has("preserve-throttles"):
        await _clear_throttles(client, wanted, face)


async def _clear_throttles(client: Client, wanted: Wanted, face: Face) -> None:
    # Listing the reassignments has filled `client.nodes`.
    targets = [broker for _, replicas in wanted.partitions for broker in replicas]
    brokers = by_number_hash(dict.fromkeys([*client.nodes, *targets]))
    face.print(f"Clearing broker-level throttles on broker{_plural(len(brokers))} {joined(brokers)}")
    await _alter_configs(client, throttle_removal(ResourceType.BROKER, map(str, brokers), BROKER_THROTTLES))
    topics = by_string_hash(partition.topic for partition, _ in wanted.partitions)
    face.print(f"Clearing topic-level throttles on topic{_plural(len(topics))} {joined(topics)}")
    await _alter_configs(client, throttle_removal(ResourceType.TOPIC, topics, TOPIC_THROTTLES))


# Generate


async def _generate(client: Client, parsed: Parsed, face: Face) -> None:
    text = _text(parsed, "topics-to-move-json-file")
    brokers = parse_brokers(parsed.value("broker-list"), face.release)
    topics = await _described(client, parse_topics(text, face.release))
    current = {
        TopicPartition(name, each.partition_index): list(each.replica_nodes)
        for name, topic in topics.items()
        for each in topic.partitions
    }
    directories = await _directories(client, current, face)
    racks = _racks(client, brokers, parsed, face)
    proposed = {}
    for name, topic in topics.items():
        replicas = len(topic.partitions[0].replica_nodes)
        _check_factor(replicas, len(racks), face)
        for number, each in enumerate(propose(racks, len(topic.partitions), replicas)):
            proposed[TopicPartition(name, number)] = each
    face.print(f"Current partition replica assignment\n{formatted(current, directories)}\n")
    face.print(f"Proposed partition reassignment configuration\n{formatted(proposed, {})}")


def _racks(client: Client, brokers: Sequence[int], parsed: Parsed, face: Face) -> dict[int, str | None]:
    is_aware = not parsed.has("disable-rack-aware")
    racks = {each: client.nodes[each].rack if is_aware else None for each in brokers if each in client.nodes}
    known = [each for each in racks.values() if each is not None]
    if known and len(known) != len(racks):
        raise operation_failed(
            face.release,
            "Not all brokers have rack information. Add --disable-rack-aware in command line to make replica "
            "assignment without rack information.",
        )
    return racks


def _check_factor(replicas: int, brokers: int, face: Face) -> None:
    if face.is_3_9:
        message = f"Replication factor: {replicas} larger than available brokers: {brokers}."
    elif brokers:
        message = (
            f"The target replication factor of {replicas} cannot be reached because only {brokers} broker(s) are "
            "registered or some brokers have all their log directories cordoned."
        )
    else:
        message = "All brokers are currently fenced, or have all their log directories cordoned."
    if replicas > brokers:
        raise JavaError("org.apache.kafka.common.errors.InvalidReplicationFactorException", message)


async def _described(client: Client, topics: Sequence[str]) -> dict[str, MetadataResponseTopic]:
    found = {}
    names = list(dict.fromkeys(topics))
    described = await describe_topics(client, names)
    for name in by_string_hash(names, len(names)):
        topic = described[name]
        if isinstance(topic, KafkaError):
            missing = topic.code == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
            raise execution(as_java(KafkaError(topic.code, f"Topic {name} not found.") if missing else topic))
        found[name] = topic
    return found


async def _directories(
    client: Client, partitions: Mapping[TopicPartition, Sequence[int]], face: Face
) -> dict[Replica, str]:
    """Return the directories of replicas on live brokers; none with 3.9, whose tool does not request them."""
    if face.is_3_9:
        return {}
    await client.metadata(())
    replicas = [
        Replica(*partition, broker)
        for partition, brokers in partitions.items()
        for broker in brokers
        if broker in client.nodes
    ]
    try:
        found = await find_replicas(client, replicas)
    except KafkaError as error:
        raise as_execution(error, "describeReplicaLogDirs") from None
    return {replica: each.current for replica, each in found.items() if each.current is not None}


# Execute


class _Limits(NamedTuple):
    """Bytes a second (-1: no limit), and the timeout for moves between log directories to begin."""

    between_brokers: int
    between_dirs: int
    timeout_ms: int


async def _execute(client: Client, parsed: Parsed, face: Face) -> None:
    text = _text(parsed)
    limits = _Limits(*(parsed.value(each) for each in ("throttle", "replica-alter-log-dirs-throttle", "timeout")))
    wanted = parse_reassignment(text, face.release)
    targets = check_targets(wanted, face.release)
    under_way = await list_reassignments(client)
    if under_way and not parsed.has("additional"):
        raise TerseError(_EXISTING)
    await client.metadata(())
    unknown = [
        each
        for each in by_number_hash({each for replicas in targets.values() for each in replicas})
        if each not in client.nodes
    ]
    if unknown:
        raise command_failed(face.release, f"Unknown broker id {unknown[0]}")
    current = await _current(client, targets)
    shown = formatted(current, await _directories(client, current, face))
    face.print(f"Current partition replica assignment\n\n{shown}\n")
    face.print("Save this to use as the --reassignment-json-file option during rollback")
    moves = moves_of(under_way, targets, current)
    await _throttle(client, moves, {each.broker_id for each in wanted.log_dirs}, limits, face)
    is_strict = not face.is_3_9 and parsed.has("disallow-replication-factor-change")
    results = await alter_reassignments(
        client, {each: targets[each] for each in sorted(targets)}, allow_replication_factor_change=not is_strict
    )
    failed = {partition: error for partition, error in results.items() if error is not None}
    if failed:
        raise TerseError(f"Error reassigning partition(s):\n{_failures(failed)}")
    names = joined(sorted(targets))
    face.print(f"Successfully started partition reassignment{_plural(len(targets))} for {names}")
    if wanted.log_dirs:
        await _move(client, wanted.log_dirs, limits.timeout_ms, face)


def _failures(failed: Mapping[TopicPartition, KafkaError]) -> str:
    return "\n".join(f"{each}: {as_java(failed[each]).message}" for each in sorted(failed))


async def _current(client: Client, targets: Iterable[TopicPartition]) -> dict[TopicPartition, list[int]]:
    wanted = set(targets)
    topics = await _described(client, by_string_hash(each.topic for each in wanted))
    found = {
        TopicPartition(name, each.partition_index): list(each.replica_nodes)
        for name, topic in topics.items()
        for each in topic.partitions
        if (name, each.partition_index) in wanted
    }
    missing = by_partition_hash(each for each in wanted if each not in found)
    if missing:
        code = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
        raise execution(as_java(KafkaError(code, f"Unable to find partition: {', '.join(map(str, missing))}")))
    return found


async def _throttle(
    client: Client, moves: Mapping[TopicPartition, Move], movers: set[int], limits: _Limits, face: Face
) -> None:
    between_brokers, between_dirs, _ = limits
    if between_brokers >= 0 or between_dirs >= 0:
        face.print(_RUN_VERIFY)
    if between_brokers >= 0:
        await _alter_configs(client, replica_throttles(moves))
        brokers = sorted(set().union(*(each.brokers for each in moves.values())))
        await _alter_configs(client, rate_limits(brokers, (LEADER_RATE, FOLLOWER_RATE), between_brokers))
        face.print(f"The inter-broker throttle limit was set to {between_brokers} B/s")
    if between_dirs >= 0:
        await _alter_configs(client, rate_limits(by_number_hash(movers), (LOG_DIR_RATE,), between_dirs))
        face.print(f"The replica-alter-dir throttle limit was set to {between_dirs} B/s")


async def _move(client: Client, targets: Mapping[Replica, str], timeout_ms: int, face: Face) -> None:
    """Start moves of replicas into other directories; retry those whose replica does not exist yet."""
    left = dict(targets)
    deadline = trio.current_time() + timeout_ms / 1000
    while True:
        begun = await _begun(client, left, face)
        for replica in begun:
            face.print(
                f"Successfully started moving log directory to {left.pop(replica)} for replica "
                f"{replica.topic}-{replica.partition} with broker {replica.broker_id} "
            )
        if not left:
            return
        if trio.current_time() >= deadline:
            shown = joined(_by_broker(left))
            raise TerseError(f"Timed out before log directory move{_plural(len(left))} could be started for: {shown}")
        await trio.sleep(_PAUSE_SECONDS)


async def _begun(client: Client, targets: Mapping[Replica, str], face: Face) -> list[Replica]:
    results = await alter_replica_log_dirs(client, targets)
    for replica, error in results.items():
        if error is not None and error.code != ErrorCode.REPLICA_NOT_AVAILABLE:
            cause = execution(as_java(error))
            raise command_failed(face.release, f"Failed to alter dir for {replica}", cause)
    return _by_broker(replica for replica, error in results.items() if error is None)


def _by_broker(replicas: Iterable[Replica]) -> list[Replica]:
    return sorted(replicas, key=lambda it: (it.broker_id, it))


# Cancel


async def _cancel(client: Client, parsed: Parsed, face: Face) -> None:
    wanted = parse_reassignment(_text(parsed), face.release)
    under_way = await list_reassignments(client, sorted({partition for partition, _ in wanted.partitions}))
    mine = sorted(partition for partition, each in under_way.items() if _is_cancellable(each, face))
    if mine:
        results = await alter_reassignments(client, dict.fromkeys(mine))
        failed = {partition: error for partition, error in results.items() if error is not None}
        if failed:
            shown = _failures(failed)
            raise TerseError(f"Error cancelling partition reassignment{_plural(len(failed))} for:\n{shown}")
        face.print(f"Successfully cancelled partition reassignment{_plural(len(mine))} for: {joined(mine)}")
    else:
        face.print("None of the specified partition reassignments are active.")
    states = await directory_states(client, wanted.log_dirs)
    back = {replica: each.current for replica, each in states.items() if each.is_active and each.current is not None}
    if back:
        await _move(client, back, parsed.value("timeout"), face)
    else:
        face.print("None of the specified partition moves are active.", end="")
    if not parsed.has("preserve-throttles"):
        await _clear_throttles(client, wanted, face)


def _is_cancellable(each: Reassignment, face: Face) -> bool:
    if face.is_3_9:
        # 3.9 does not cancel a reassignment that only adds replicas.
        return not each.adding or bool(each.removing)
    return bool(each.adding or each.removing)
