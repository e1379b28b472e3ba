"""`ottla verifiable-producer`: write numbers, and print the result of each.

Counterpart in Kafka: kafka-verifiable-producer.sh, which has the same events.
"""

import sys
from typing import Any, Final

import click

from ottla.client.cluster import Client
from ottla.scripts.kafka.records.client_errors import ProducerErrors
from ottla.scripts.load.events import Events, json_lines
from ottla.scripts.load.verifiable_producing import NO_LIMIT, Failure, Plan, produce_verifiably
from ottla.scripts.terminal.names import TOPIC_NAME
from ottla.scripts.terminal.options import asks_cluster
from ottla.scripts.terminal.output import ERROR, explained
from ottla.scripts.terminal.properties import PROPERTIES, read_properties
from ottla.scripts.terminal.session import Session, describe
from ottla.wire.errors import KafkaError

_COLUMNS: Final = ("timestamp", "name", "topic", "partition", "offset", "key", "value")
_SUMMARY: Final = ("sent", "acked", "target_throughput", "avg_throughput")


@click.command("verifiable-producer")
@click.argument("topic", type=TOPIC_NAME)
@click.option("--max", "most", type=click.IntRange(0), metavar="N", help="End after N records.")
@click.option("--rate", type=click.IntRange(1), metavar="N", help="The most records a second.")
@click.option("--acks", type=click.Choice(["all", "1", "0"]), help="Replicas that must have a record; default: `all`.")
@click.option("--value-prefix", type=int, metavar="N", help="Values are N, a dot and a number.")
@click.option("--keys", type=click.IntRange(1), metavar="N", help="Keys are the numbers below N, in turn.")
@click.option("--create-time", type=click.IntRange(0), metavar="MS", help="The timestamp of the first record.")
@PROPERTIES
@asks_cluster
def verifiable_producer(
    session: Session,
    topic: str,
    most: int | None,
    rate: int | None,
    acks: str | None,
    keys: int | None,
    properties: tuple[str, ...],
    **options: Any,
) -> None:
    """Write numbers and print which arrive, for tests.

    The numbers begin with 0, and end before --max, or with Ctrl-C or SIGTERM. The command prints the events of Kafka's
    VerifiableProducer as they happen, one line of JSON each:

    \b
      startup_complete
      producer_send_success  topic, partition, offset, key, value
      producer_send_error    topic, key, value, exception, message
      shutdown_complete
      tool_data              sent, acked, target_throughput, avg_throughput

    With --output the events are rows. A record that did not arrive makes the exit code 1.
    """
    plan = Plan(
        topic,
        most=NO_LIMIT if most is None else most,
        rate=NO_LIMIT if rate is None else rate,
        repeating_keys=keys,
        value_prefix=options["value_prefix"],
        create_time_ms=options["create_time"],
    )
    form = click.get_current_context().params["form"]
    found = {"allow.auto.create.topics": "false", **read_properties(properties, {"acks": acks})}
    session.run(_produce, plan, form is not None, properties=found)


async def _produce(client: Client, session: Session, plan: Plan, has_form: bool) -> None:
    await client.topics([plan.topic])
    events, failure = _in_rows(session) if has_form else _in_lines(session, plan.topic)
    if await produce_verifiably(client, plan, events, failure):
        raise KeyboardInterrupt


def _in_lines(session: Session, topic: str) -> tuple[Events, Failure]:
    errors = ProducerErrors(topic)

    def failure(error: Exception) -> dict[str, str | None]:
        session.out.has_failed = True
        found = errors.next(error)
        return {"exception": f"class {found.java_class}", "message": found.message}

    return json_lines(sys.stdout), failure


def _in_rows(session: Session) -> tuple[Events, Failure]:
    session.out.begin(*_COLUMNS, *_SUMMARY, *ERROR)

    def failure(error: Exception) -> dict[str, str | None]:
        code, text, _ = describe(error)
        return {"error": code, "message": explained(error) if isinstance(error, KafkaError) else text}

    def write(event: dict[str, Any]) -> None:
        session.out.row(**event)
        session.out.flush()

    return Events(write), failure
