"""kafka-metadata-quorum: the controllers of a KRaft cluster, and changing its voters.

Counterpart: org.apache.kafka.tools.MetadataQuorumCommand.
"""

import time
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any, Final

from ottla.client.admin.cluster import (
    ControllerListener,
    Quorum,
    add_controller,
    bracketed,
    describe_cluster,
    describe_quorum,
    remove_controller,
)
from ottla.client.cluster import Client
from ottla.client.config import read_properties
from ottla.scripts.kafka.bootstraps import bootstraps, call
from ottla.scripts.kafka.clusters.meta_properties import read_meta_properties
from ottla.scripts.kafka.face import Face, JavaError
from ottla.scripts.kafka.failures import TerseError
from ottla.scripts.kafka.java.hashes import java_uuid
from ottla.scripts.kafka.java.numbers import INTEGER
from ottla.scripts.kafka.subcommands import HelpShown, Parser, ParserError, argument, report
from ottla.wire.messages.describe_quorum import ReplicaState
from ottla.wire.uuids import uuid_text

_COLUMNS: Final = (
    "NodeId",
    "DirectoryId",
    "LogEndOffset",
    "Lag",
    "LastFetchTimestamp",
    "LastCaughtUpTimestamp",
    "Status",
)
_TIMEOUT_MS: Final = 60_000
_NOT_A_CONTROLLER: Final = "Is this a valid controller configuration file?"


def _parser() -> Parser:
    dry_run = argument("--dry-run", action="store_true", help="Say what would be done, and change nothing.")
    commands = [
        Parser(
            "describe",
            "Print the state of the quorum.",
            [
                argument("--status", action="store_true", help="Print a summary."),
                argument("--replication", action="store_true", help="Print a line for each controller and broker."),
                argument("--human-readable", action="store_true", help="Print how long ago instead of timestamps."),
            ],
        ),
        Parser("add-controller", "Let a controller vote.", [dry_run]),
        Parser(
            "remove-controller",
            "Let a controller vote no more.",
            [
                argument("--controller-id", "-i", type=INTEGER, is_required=True, help="The controller."),
                argument("--controller-directory-id", "-d", is_required=True, help="The id of its directory."),
                dry_run,
            ],
        ),
    ]
    properties = argument(
        "--command-config", help="A file of client properties; for add-controller, that of the controller."
    )
    return Parser(
        "kafka-metadata-quorum",
        "The controllers of a KRaft cluster.",
        [*bootstraps(is_required=True), properties],
        commands,
    )


def main(arguments: Sequence[str], face: Face) -> int:
    """Run the tool."""
    try:
        values = _parser().parse(arguments)
    except ParserError as error:
        report(face, error)
        return 0 if isinstance(error, HelpShown) else 1
    try:
        path = values["command_config"]
        if path is not None and not Path(path).exists():
            raise TerseError(f"Properties file {path} does not exists!")
        _WORK[values["command"]](values, face)
    except TerseError as error:
        face.complain(str(error))
        return 1
    except JavaError as error:
        face.complain(str(error.message))
        face.complain_trace(error)
        return 1
    return 0


# Describe


def _describe(values: Mapping[str, Any], face: Face) -> None:
    if values["status"] and values["replication"]:
        raise TerseError("Only one of --status or --replication should be specified with describe sub-command")
    if not values["status"] and not values["replication"]:
        raise TerseError("One of --status or --replication must be specified with describe sub-command")
    if values["replication"]:
        quorum = call(face, values, values["command_config"], "describeMetadataQuorum", describe_quorum)
        _print_replication(quorum, values["human_readable"], face)
        return
    if values["human_readable"]:
        raise TerseError("The option --human-readable is only supported along with --replication")
    controllers = values["bootstrap_controller"] is not None
    cluster_id, quorum = call(face, values, values["command_config"], "describeMetadataQuorum", _status, controllers)
    _print_status(cluster_id, quorum, face)


async def _status(client: Client, controllers: bool) -> tuple[str | None, Quorum]:
    described = await describe_cluster(client, controllers=controllers)
    return described.cluster_id, await describe_quorum(client)


def _print_replication(quorum: Quorum, is_human_readable: bool, face: Face) -> None:
    leader = _leader(quorum)
    rows = [list(_COLUMNS)]
    followers = [each for each in quorum.voters if each is not leader]
    for status, states in (("Leader", [leader]), ("Follower", followers), ("Observer", quorum.observers)):
        for each in states:
            rows.append(
                [
                    str(each.replica_id),
                    uuid_text(each.replica_directory_id),
                    str(each.log_end_offset),
                    str(leader.log_end_offset - each.log_end_offset),
                    _time(each.last_fetch_timestamp, "last fetch", is_human_readable),
                    _time(each.last_caught_up_timestamp, "last caught up", is_human_readable),
                    status,
                ]
            )
    for line in table(rows):
        face.print(line)


def table(rows: Sequence[Sequence[str]]) -> Iterable[str]:
    """Yield the lines of a table: cells as wide as their column, each followed by a tab."""
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    for row in rows:
        yield "".join(f"{cell:<{width}}\t" for cell, width in zip(row, widths, strict=True))


def _leader(quorum: Quorum) -> ReplicaState:
    found = next((each for each in quorum.voters if each.replica_id == quorum.leader_id), None)
    if found is None:
        raise JavaError("java.util.NoSuchElementException", "No value present")
    return found


def _time(timestamp: int, what: str, is_human_readable: bool) -> str:
    if timestamp == -1 or not is_human_readable:
        return str(timestamp)
    now = time.time_ns() // 1_000_000
    if not 0 < timestamp <= now:
        raise JavaError(
            "org.apache.kafka.common.KafkaException",
            "Error while computing relative time, possible drift in system clock.\n"
            f"Current timestamp is {now}, {what} timestamp is {timestamp}",
        )
    return f"{now - timestamp} ms ago"


def _print_status(cluster_id: str | None, quorum: Quorum, face: Face) -> None:
    leader = _leader(quorum)
    last = min(quorum.voters, key=lambda it: it.log_end_offset)
    behind_ms = 0 if last is leader else -1
    if last is not leader and -1 not in (leader.last_caught_up_timestamp, last.last_caught_up_timestamp):
        behind_ms = leader.last_caught_up_timestamp - last.last_caught_up_timestamp
    for name, value in (
        ("ClusterId", cluster_id),
        ("LeaderId", quorum.leader_id),
        ("LeaderEpoch", quorum.leader_epoch),
        ("HighWatermark", quorum.high_watermark),
        ("MaxFollowerLag", leader.log_end_offset - last.log_end_offset),
        ("MaxFollowerLagTimeMs", behind_ms),
        ("CurrentVoters", _nodes(quorum, quorum.voters, face)),
        ("CurrentObservers", _nodes(quorum, quorum.observers, face)),
    ):
        face.print(f"{name + ':':<23} {value}")


def _nodes(quorum: Quorum, states: Iterable[ReplicaState], face: Face) -> str:
    return "[" + ", ".join(_node(quorum, each, face) for each in states) + "]"


def _node(quorum: Quorum, state: ReplicaState, face: Face) -> str:
    parts = [f'"id": {state.replica_id}']
    if any(state.replica_directory_id):
        parts.append(f'"directoryId": "{uuid_text(state.replica_directory_id)}"')
    elif face.is_3_9:
        parts.append('"directoryId": null')
    listeners = quorum.listeners.get(state.replica_id)
    if listeners:
        parts.append('"endpoints": [' + ", ".join(f'"{each}"' for each in listeners) + "]")
    return "{" + ", ".join(parts) + "}"


# Voters


def _add(values: Mapping[str, Any], face: Face) -> None:
    path = values["command_config"]
    if path is None:
        raise TerseError(
            "You must supply the configuration file of the controller you are adding when using add-controller."
        )
    properties = read_properties(Path(path))
    controller_id = _controller_id(properties)
    directory_id = _directory_id(_metadata_directory(properties))
    listeners = _listeners(properties)
    if not values["dry_run"]:
        call(face, values, path, "addRaftVoter", add_controller, controller_id, directory_id, listeners, _TIMEOUT_MS)
    done = "DRY RUN of adding" if values["dry_run"] else "Added"
    where = ", ".join(f"{each.name}://{bracketed(each.host)}:{each.port}" for each in listeners)
    face.print(f"{done} controller {controller_id} with directory id {uuid_text(directory_id)} and endpoints: {where}")


def _controller_id(properties: Mapping[str, str]) -> int:
    if "node.id" not in properties:
        raise TerseError(f"node.id not found in configuration file. {_NOT_A_CONTROLLER}")
    try:
        node_id: int = INTEGER.convert(properties["node.id"])
    except ValueError as error:
        raise JavaError("java.lang.NumberFormatException", str(error)) from None
    if node_id < 0:
        raise TerseError(f"node.id was negative in configuration file. {_NOT_A_CONTROLLER}")
    if "controller" not in properties.get("process.roles", ""):
        raise TerseError(f"process.roles did not contain 'controller' in configuration file. {_NOT_A_CONTROLLER}")
    return node_id


def _metadata_directory(properties: Mapping[str, str]) -> str:
    if "metadata.log.dir" in properties:
        return properties["metadata.log.dir"]
    if "log.dirs" in properties:
        return properties["log.dirs"].strip().split(",")[0]
    raise TerseError(f"Neither metadata.log.dir nor log.dirs were found. {_NOT_A_CONTROLLER}")


def _directory_id(directory: str) -> bytes:
    found = read_meta_properties(Path(directory))
    if found is None:
        raise TerseError(f"Unable to read meta.properties from {directory}")
    if "directory.id" not in found:
        raise TerseError(f"No directory id found in {directory}")
    return java_uuid(found["directory.id"])


def _listeners(properties: Mapping[str, str]) -> list[ControllerListener]:
    known: dict[str, ControllerListener] = {}
    for key in ("listeners", "advertised.listeners"):
        for text in filter(None, map(str.strip, properties.get(key, "").split(","))):
            name, _, address = text.partition("://")
            host, _, port = address.rpartition(":")
            known[name.upper()] = ControllerListener(name.upper(), host.strip("[]") or "localhost", int(port))
    if "controller.listener.names" not in properties:
        raise TerseError(f"controller.listener.names was not found. {_NOT_A_CONTROLLER}")
    found = []
    for each in properties["controller.listener.names"].split(","):
        name = each.upper()
        if name not in known:
            raise TerseError(f"Cannot find information about controller listener name: {name}")
        found.append(known[name])
    return found


def _remove(values: Mapping[str, Any], face: Face) -> None:
    controller_id = values["controller_id"]
    if controller_id < 0:
        raise TerseError(f"Invalid negative --controller-id: {controller_id}")
    try:
        directory_id = java_uuid(values["controller_directory_id"])
    except JavaError as error:
        raise TerseError(f"Failed to parse --controller-directory-id: {error.message}") from None
    if not values["dry_run"]:
        path = values["command_config"]
        call(face, values, path, "removeRaftVoter", remove_controller, controller_id, directory_id)
    done = "DRY RUN of removing " if values["dry_run"] else "Removed "
    face.print(f"{done} KRaft controller {controller_id} with directory id {uuid_text(directory_id)}")


_WORK: Final = {"describe": _describe, "add-controller": _add, "remove-controller": _remove}
