"""`ottla verifiable-consumer`: read as a member of a group, and print the events of reading and committing.

Counterpart in Kafka: kafka-verifiable-consumer.sh, which has the same events.
"""

import sys
from typing import Any, Final

import click

from ottla.client.cluster import Client
from ottla.client.consuming.assignors import ASSIGNORS
from ottla.scripts.kafka.face import as_java
from ottla.scripts.load.events import Events, json_lines
from ottla.scripts.load.verifiable_consuming import NO_LIMIT, Plan, consume_verifiably
from ottla.scripts.terminal.durations import duration_ms
from ottla.scripts.terminal.names import GROUP_NAME, TOPIC_NAME
from ottla.scripts.terminal.options import asks_cluster
from ottla.scripts.terminal.output import ERROR
from ottla.scripts.terminal.properties import PROPERTIES, read_properties
from ottla.scripts.terminal.session import Session
from ottla.wire.errors import KafkaError

_COLUMNS: Final = ("timestamp", "name", "partitions", "count", "offsets", "success")
_RECORD: Final = ("topic", "partition", "offset", "key", "value")
_RESETS: Final = {"beginning": "earliest", "end": "latest", "nowhere": "none"}


@click.command("verifiable-consumer")
@click.argument("topic", type=TOPIC_NAME)
@click.option("-g", "--group", required=True, metavar="GROUP", type=GROUP_NAME, help="Read as a member of this group.")
@click.option("--max", "most", type=click.IntRange(0), metavar="N", help="End after N records.")
@click.option("--verbose", is_flag=True, help="Print each record, too.")
@click.option(
    "--from",
    "first",
    type=click.Choice(list(_RESETS)),
    default="beginning",
    show_default=True,
    help="Begin here without a committed offset; `nowhere` makes that an error.",
)
@click.option("--auto-commit", is_flag=True, help="Commit every few seconds, not after each poll.")
@click.option("--instance-id", metavar="NAME", help="Join as a static member with this name.")
@click.option(
    "--session-timeout", type=duration_ms, metavar="DURATION", help="How long the member may send no heartbeat."
)
@click.option("--assignor", type=click.Choice(list(ASSIGNORS)), help="The assignor of partitions.")
@PROPERTIES
@asks_cluster
def verifiable_consumer(
    session: Session,
    topic: str,
    most: int | None,
    verbose: bool,
    first: str,
    auto_commit: bool,
    properties: tuple[str, ...],
    **options: Any,
) -> None:
    """Read a topic and print what is read, for tests.

    The command reads as a member of --group until --max, Ctrl-C or SIGTERM. It prints the events of Kafka's
    VerifiableConsumer as they happen, a line of JSON each:

    \b
      startup_complete
      partitions_assigned, partitions_revoked  partitions
      record_data (--verbose)                  topic, partition, offset, key, value
      records_consumed                         count, partitions
      offsets_committed                        offsets, success, error
      shutdown_requested, shutdown_complete

    With --output the events are rows. A commit that failed makes the exit code 1.
    """
    timeout_ms = options["session_timeout"]
    own = {
        "group.id": options["group"],
        "group.instance.id": options["instance_id"],
        "session.timeout.ms": None if timeout_ms is None else str(timeout_ms),
        "partition.assignment.strategy": options["assignor"],
        "enable.auto.commit": str(auto_commit).lower(),
        "auto.offset.reset": _RESETS[first],
    }
    found = {"allow.auto.create.topics": "false", **read_properties(properties, own)}
    plan = Plan(topic, NO_LIMIT if most is None else most, verbose)
    form = click.get_current_context().params["form"]
    session.run(_consume, plan, form is not None, properties=found)


async def _consume(client: Client, session: Session, plan: Plan, has_form: bool) -> None:
    await client.topics([plan.topic])

    def message(error: KafkaError) -> str | None:
        session.out.has_failed = True
        return error.code.name if has_form else as_java(error).message

    events = _rows(session) if has_form else json_lines(sys.stdout)
    if await consume_verifiably(client, plan, events, message):
        raise KeyboardInterrupt


def _rows(session: Session) -> Events:
    session.out.begin(*_COLUMNS, *_RECORD, *ERROR)

    def write(event: dict[str, Any]) -> None:
        session.out.row(**event)
        session.out.flush()

    return Events(write)
