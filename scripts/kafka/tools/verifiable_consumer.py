"""kafka-verifiable-consumer: read as a member of a group, and print partitions, records and commits as JSON.

Counterpart: org.apache.kafka.tools.VerifiableConsumer. `ottla verifiable-consumer` is the same program.
"""

import sys
from collections.abc import Mapping, Sequence
from typing import Any, Final

from ottla.client.config import ClientConfig
from ottla.client.consuming.assignors import ASSIGNORS, chosen_assignors
from ottla.client.errors import ClientError
from ottla.scripts.kafka.client_properties import client_config, config_exception, properties_of
from ottla.scripts.kafka.face import Face, JavaError, as_java, illegal_argument
from ottla.scripts.kafka.java.numbers import INTEGER
from ottla.scripts.kafka.records.client_errors import consumer_error, log_error
from ottla.scripts.kafka.subcommands import OneOf, Parser, ParserError, argument, help_lines, report
from ottla.scripts.load.events import json_lines
from ottla.scripts.load.verifiable_consuming import Plan, consume_verifiably
from ottla.wire.config_def import ConfigError
from ottla.wire.errors import KafkaError

_CLASS: Final = "org.apache.kafka.tools.VerifiableConsumer"
_EXCEPTION: Final = "org.apache.kafka.common.KafkaException"
_RANGE: Final = "org.apache.kafka.clients.consumer.RangeAssignor"
_SIGNALLED: Final = 128
_SESSION_MS: Final = 30_000


def _parser(*, is_3_9: bool) -> Parser:
    group = OneOf(is_required=True)
    hosts = "HOST1:PORT1[,HOST2:PORT2[...]]"
    older = [argument("--broker-list", metavar=hosts, group=group, help="An older name of --bootstrap-server.")]

    def shown(name: str) -> str:
        return name.replace("-", "_") if is_3_9 else name

    return Parser(
        "verifiable-consumer",
        "Read as a member of a group, and print what it is given, reads and commits as JSON.",
        [
            argument("--bootstrap-server", is_required=not is_3_9, metavar=hosts, group=group, help="The brokers."),
            *(older if is_3_9 else []),
            argument("--topic", is_required=True, metavar="TOPIC", help="The topic to read."),
            argument("--group-protocol", default="classic", metavar=shown("GROUP-PROTOCOL"), help="Only classic."),
            argument("--group-remote-assignor", metavar=shown("GROUP-REMOTE-ASSIGNOR"), help="Has no effect."),
            argument("--group-id", is_required=True, metavar=shown("GROUP-ID"), help="The group."),
            argument("--group-instance-id", metavar=shown("GROUP-INSTANCE-ID"), help="The name of a static member."),
            argument("--max-messages", type=INTEGER, default=-1, metavar="MAX-MESSAGES", help="-1: no limit."),
            argument("--session-timeout", type=INTEGER, default=_SESSION_MS if is_3_9 else None,
                     metavar=shown("TIMEOUT-MS"), help="How long the member may be silent."),
            argument("--verbose", action="store_true", help="Print each record, too."),
            argument("--enable-autocommit", action="store_true", help="Commit now and then, not after each poll."),
            argument("--reset-policy", default="earliest", metavar="RESETPOLICY" if is_3_9 else "RESET-POLICY",
                     help="earliest, latest or none."),
            argument("--assignment-strategy", default=_RANGE,
                     metavar="ASSIGNMENTSTRATEGY" if is_3_9 else "ASSIGNMENT-STRATEGY", help="An assignor's class."),
            argument("--consumer.config", metavar=shown("CONFIG-FILE"), destination="file", help="Properties."),
            *([] if is_3_9 else [argument("--command-config", metavar="CONFIG-FILE", help="The same.")]),
        ],
    )  # fmt: skip


def main(arguments: Sequence[str], face: Face) -> int:
    """Run the tool."""
    parser = _parser(is_3_9=face.is_3_9)
    if not arguments:
        for line in help_lines(parser):
            face.print(line)
        return 0
    try:
        values = parser.parse(arguments)
        properties = _properties(parser, values, face)
    except ParserError as error:
        report(face, error)
        return 1
    config = client_config(properties)
    _check_assignors(config)
    plan = Plan(values["topic"], values["max_messages"], values["verbose"], prints_request=not face.is_3_9)
    face.flush()
    try:
        number = face.with_client(config, consume_verifiably, plan, json_lines(sys.stdout), _message)
    except ConfigError as error:
        raise config_exception(error) from None
    except (KafkaError, ClientError) as error:
        log_error(face, "Error during processing, terminating consumer process: ", _CLASS, consumer_error(error))
        return 0
    return _SIGNALLED + number if number else 0


def _check_assignors(config: ClientConfig) -> None:
    """Raise JavaError for an unknown assignor, as Java does for a class that it does not find."""
    try:
        chosen_assignors(config["partition.assignment.strategy"])
    except KeyError as error:
        name = str(error.args[0])
        if name.startswith("org.apache.kafka."):
            text = f"partition.assignment.strategy: {name} is not here, only {', '.join(ASSIGNORS)}"
            raise config_exception(ConfigError(text)) from None
        missing = JavaError("java.lang.ClassNotFoundException", name)
        cause = JavaError(_EXCEPTION, f"{name} ClassNotFoundException exception occurred", missing)
        raise JavaError(_EXCEPTION, "Failed to construct kafka consumer", cause) from None


def _message(error: KafkaError) -> str | None:
    return as_java(error).message


def _properties(parser: Parser, values: Mapping[str, Any], face: Face) -> dict[str, str]:
    """Return the properties; flags override the file."""
    file, new = values["file"], values.get("command_config")
    if file is not None and new is not None:
        raise ParserError(parser, "Options --consumer.config and --command-config are mutually exclusive.")
    if file is not None and not face.is_3_9:
        face.print(
            "Option --consumer.config has been deprecated and will be removed in a future version. Use "
            "--command-config instead."
        )
    try:
        properties = properties_of(file or new)
    except JavaError as error:
        raise ParserError(parser, str(error.message)) from None
    protocol = values["group_protocol"].upper()
    if protocol not in ("CLASSIC", "CONSUMER") and not face.is_3_9:
        raise illegal_argument(f"No enum constant org.apache.kafka.clients.consumer.GroupProtocol.{protocol}")
    if protocol == "CONSUMER":
        raise config_exception(ConfigError("group.protocol=consumer: only the classic protocol is here"))
    given = {
        "session.timeout.ms": values["session_timeout"],
        "group.id": values["group_id"],
        "group.instance.id": values["group_instance_id"],
        "partition.assignment.strategy": values["assignment_strategy"],
        "bootstrap.servers": values["bootstrap_server"] or values.get("broker_list"),
        "enable.auto.commit": str(values["enable_autocommit"]).lower(),
        "auto.offset.reset": values["reset_policy"],
    }
    return {**properties, **{key: str(value) for key, value in given.items() if value is not None}}
