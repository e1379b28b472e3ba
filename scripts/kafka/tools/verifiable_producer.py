"""kafka-verifiable-producer: write increasing numbers, and print the result of each as JSON.

Counterpart: org.apache.kafka.tools.VerifiableProducer. `ottla verifiable-producer` is the same program.
"""

import sys
from collections.abc import Sequence
from typing import Any, Final

from ottla.scripts.kafka.client_properties import client_config, config_exception, properties_of
from ottla.scripts.kafka.face import Face, JavaError
from ottla.scripts.kafka.java.numbers import INTEGER, LONG
from ottla.scripts.kafka.records.client_errors import ProducerErrors
from ottla.scripts.kafka.subcommands import OneOf, Parser, ParserError, argument, help_lines, report
from ottla.scripts.load.events import json_lines
from ottla.scripts.load.verifiable_producing import Plan, produce_verifiably
from ottla.wire.config_def import ConfigError

_SIGNALLED: Final = 128
_UNSET: Final = -1


def _parser(*, is_3_9: bool) -> Parser:
    group = OneOf(is_required=True)
    hosts = "HOST1:PORT1[,HOST2:PORT2[...]]"
    config_file, create_time = ("CONFIG_FILE", "CREATETIME") if is_3_9 else ("CONFIG-FILE", "CREATE-TIME")
    older = [argument("--broker-list", metavar=hosts, group=group, help="An older name of --bootstrap-server.")]
    newer = [argument("--command-config", metavar=config_file, help="A file of properties of the producer.")]
    return Parser(
        "verifiable-producer",
        "Write increasing numbers, and print what became of each as JSON.",
        [
            argument("--topic", is_required=True, metavar="TOPIC", help="The topic to write to."),
            argument("--bootstrap-server", metavar=hosts, group=group, help="The brokers to find the cluster at."),
            *(older if is_3_9 else []),
            argument("--max-messages", type=INTEGER, default=-1, metavar="MAX-MESSAGES", help="-1: no limit."),
            argument("--throughput", type=INTEGER, default=-1, metavar="THROUGHPUT", help="Records a second at most."),
            argument("--acks", type=INTEGER, default=-1, choices=(0, 1, -1), metavar="ACKS", help="0, 1 or -1."),
            argument("--producer.config", metavar=config_file, destination="file", help="A file of properties."),
            argument("--message-create-time", type=LONG, default=_UNSET, metavar=create_time,
                     destination="create_time", help="The time of the first record, in milliseconds."),
            argument("--value-prefix", type=INTEGER, metavar="VALUE-PREFIX", help="A number before each value."),
            argument("--repeating-keys", type=INTEGER, metavar="REPEATING-KEYS", help="How many keys take turns."),
            *([] if is_3_9 else newer),
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
    plan = Plan(
        topic=values["topic"],
        most=values["max_messages"],
        rate=values["throughput"],
        value_prefix=values["value_prefix"],
        repeating_keys=values["repeating_keys"],
        create_time_ms=None if values["create_time"] == _UNSET else values["create_time"],
    )
    config = client_config(properties)
    errors = ProducerErrors(plan.topic)
    face.flush()

    def failure(error: Exception) -> dict[str, str | None]:
        found = errors.next(error)
        return {"exception": f"class {found.java_class}", "message": found.message}

    try:
        number = face.with_client(config, produce_verifiably, plan, json_lines(sys.stdout), failure)
    except ConfigError as error:
        raise config_exception(error) from None
    return _SIGNALLED + number if number else 0


def _properties(parser: Parser, values: dict[str, Any], face: Face) -> dict[str, str]:
    """Return the properties; the file overrides flags."""
    servers: str = values["bootstrap_server"] or values["broker_list"]
    properties = {"bootstrap.servers": servers, "acks": str(values["acks"]), "retries": "0"}
    file, new = values["file"], values.get("command_config")
    if file is not None and new is not None:
        raise ParserError(parser, "Options --producer.config and --command-config are mutually exclusive.")
    if file is not None and not face.is_3_9:
        face.print(
            "Option --producer.config has been deprecated and will be removed in a future version. Use "
            "--command-config instead."
        )
    try:
        properties |= properties_of(file or new)
    except JavaError as error:
        raise ParserError(parser, str(error.message)) from None
    return {"client.id": "producer-1", **properties}
