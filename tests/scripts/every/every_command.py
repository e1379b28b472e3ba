"""A case for each command that needs a cluster or prints rows, and a broker on which each case has output.

Commands with `--dry-run` are called with it. The broker is Apache Kafka's, because it supports all commands. It
authenticates its clients: `admin` may do everything, `alice` nothing.
"""

import contextlib
import shlex
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, NamedTuple

import click
import trio

from compat_tests.support.brokers import ApacheKafka, Broker, running
from compat_tests.tools.imitation.delegation_tokens import FILES, SETTINGS
from ottla.cli import main
from ottla.client.admin.groups.committed_offsets import Committed, commit_offsets
from ottla.client.cluster import TRANSACTION, Client, Coordinator, open_client
from ottla.client.config import ClientConfig, read_properties
from ottla.scripts.terminal.commands import LateGroup
from ottla.wire.messages.init_producer_id import InitProducerIdRequest, InitProducerIdResponse
from ottla.wire.messages.produce import PartitionProduceData, ProduceRequest, ProduceResponse, TopicProduceData
from ottla.wire.records.batch import NewRecord, build_batch
from ottla.wire.types import TopicPartition
from tests.scripts.running import PATIENCE_S, Ended, environment, ottla_here


class Case(NamedTuple):
    """A command's arguments on the broker of this module; words in braces stand for files and names."""

    arguments: str = ""
    code: int = 0
    has_rows: bool = True
    """Whether it prints rows."""
    document: str = ""
    """The begin of its output without --output, if that is not rows."""
    asks_nobody: bool = False
    """Whether it works without a cluster."""


CASES = {
    "acls add": Case("--allow User:carol --operation read --topic orders --dry-run"),
    "acls list": Case(),
    "acls remove": Case("--principal User:bob --dry-run"),
    "api-versions": Case(),
    "apply": Case("{topics.toml} --dry-run"),
    "client-metrics delete": Case("metrics --dry-run"),
    "client-metrics describe": Case("metrics"),
    "client-metrics list": Case(),
    "client-metrics set": Case("metrics --interval-ms 9000 --dry-run"),
    "cluster brokers": Case(),
    "cluster id": Case(),
    "cluster unregister": Case("1 --dry-run"),
    "configs append": Case("topic/orders cleanup.policy=compact --dry-run"),
    "configs describe": Case("topic/orders"),
    "configs diff": Case("topic/orders topic/sold", code=1),
    "configs set": Case("topic/orders retention.ms=1000 --dry-run"),
    "configs subtract": Case("topic/orders cleanup.policy=compact --dry-run"),
    "configs unset": Case("topic/orders retention.ms --dry-run"),
    "consume": Case("orders --exit-at-end", document="first\nsecond\n"),
    "copy": Case("orders --as written --dry-run"),
    "delete-records": Case("orders --before latest --dry-run"),
    "diff": Case("--with-file {topics.toml}", code=1),
    "dump-log": Case("{segment}", asks_nobody=True),
    "elect-leaders": Case("orders --dry-run"),
    "features downgrade": Case("streams.version=0 --dry-run"),
    "features list": Case(),
    "features upgrade": Case("share.version=1 --dry-run"),
    "groups delete": Case("billing --dry-run"),
    "groups delete-offsets": Case("billing --topic orders --dry-run"),
    "groups describe": Case("billing"),
    "groups lag": Case("billing"),
    "groups list": Case(),
    "groups reset": Case("billing --to-earliest --dry-run"),
    "groups undo": Case("{undo} --dry-run"),
    "install-shims": Case("{shims}", asks_nobody=True),
    "log-dirs": Case(),
    "loggers list": Case("1"),
    "loggers set": Case("1 root=WARN --dry-run"),
    "loggers unset": Case("1 org.apache.kafka.server.logger.LoggingController --dry-run"),
    "offsets": Case("orders"),
    "perf consume": Case("orders"),
    "perf latency": Case("written --records 2"),
    "perf produce": Case("written --records 10"),
    "produce": Case("written {lines.txt}"),
    "quotas apply": Case("{quotas.json} --dry-run"),
    "quotas list": Case(),
    "quotas set": Case("--user carol producer_byte_rate=1 --dry-run"),
    "quotas unset": Case("--user bob --dry-run"),
    # Of one broker nothing can be moved away.
    "reassign cancel": Case("--dry-run", has_rows=False),
    "reassign list": Case(has_rows=False),
    "reassign plan": Case("orders gone", code=1),
    "reassign start": Case("{plan.json} --dry-run", code=1),
    "reassign watch": Case(has_rows=False),
    "tokens create": Case(),
    "tokens expire": Case("--hmac-file {hmac} --dry-run"),
    "tokens list": Case(),
    "tokens renew": Case("--hmac-file {hmac}"),
    "topics alter": Case("orders --partitions 9 --dry-run"),
    "topics create": Case("more --dry-run"),
    "topics delete": Case("orders --dry-run"),
    "topics describe": Case("orders"),
    "topics export": Case("orders", document='[topics."orders"]\npartitions = 3\n'),
    "topics list": Case(),
    "transactions abort": Case("sold:0 0 --dry-run"),
    "transactions describe": Case("tx"),
    "transactions find-hanging": Case("--older-than 0ms"),
    "transactions list": Case(),
    "transactions producers": Case("sold"),
    "transactions terminate": Case("tx --dry-run"),
    "users add": Case("carol --password-file {password}"),
    "users delete": Case("bob --dry-run"),
    "users list": Case(),
    "verifiable-consumer": Case("orders --group verifiers --max 0", document='{"timestamp":'),
    "verifiable-producer": Case("written --max 2", document='{"timestamp":'),
}


def commands() -> dict[str, click.Command]:
    """Return the commands for any cluster by their words, without those that run servers."""
    assert isinstance(main, LateGroup)
    context = click.Context(main)
    found: dict[str, click.Command] = {}
    for name in main.late:
        found.update(_leaves(context, main, name))
    del found["cluster up"]
    return found


def _leaves(context: click.Context, group: click.Group, name: str) -> Iterator[tuple[str, click.Command]]:
    command = group.get_command(context, name)
    assert command is not None
    if not isinstance(command, click.Group):
        yield name, command
        return
    for each in command.list_commands(context):
        for words, leaf in _leaves(context, command, each):
            yield f"{name} {words}", leaf


def flags(command: click.Command) -> set[str]:
    """Return the long and the short names of a command's options."""
    return {flag for each in command.params for flag in (*each.opts, *each.secondary_opts)}


class Prepared:
    """The broker, with its topics, groups and files."""

    def __init__(self, broker: Broker, folder: Path) -> None:
        self.broker = broker
        self.folder = folder
        self.env = {**environment(folder), "NO_COLOR": "1", "TERM": "xterm"}
        self.names: dict[str, str] = {"shims": str(folder / "shims")}
        for name, text in FILES.items():
            (folder / name).write_text(text)

    def run(
        self,
        words: str,
        arguments: str = "",
        *options: str,
        user: str = "admin",
        bootstrap: str | None = None,
        terminal: bool = False,
    ) -> Ended:
        """Run a command as a user, on the broker or another one."""
        given = [*words.split(), *shlex.split(self.filled(arguments)), *options]
        if "--bootstrap-server" in flags(commands()[words]):
            config = self.folder / f"{user}.properties"
            given += ["-b", bootstrap or self.broker.bootstrap, "--command-config", str(config)]
        return ottla_here(*given, env=self.env, terminal=terminal)

    def filled(self, arguments: str) -> str:
        """Return arguments with the words in braces replaced by files and names."""
        for name, value in self.names.items():
            arguments = arguments.replace(f"{{{name}}}", value)
        return arguments

    def write(self, name: str, text: str) -> None:
        """Write a file of a command."""
        (self.folder / name).write_text(text)
        self.names[name] = str(self.folder / name)

    def do(self, words: str, arguments: str = "") -> Ended:
        """Run a command that must succeed."""
        ended = self.run(words, arguments, "-o", "json")
        assert ended.code == 0, ended
        return ended

    def until(self, holds: Callable[[list[dict[str, Any]]], object], words: str, arguments: str = "") -> None:
        """Run a command until its items are right, because a KRaft broker applies changes after its response."""
        deadline = time.monotonic() + PATIENCE_S
        while not holds(items := self.run(words, arguments, "-o", "json").items):
            assert time.monotonic() < deadline, items
            time.sleep(0.05)

    def with_client(self, work: Any, *arguments: Any) -> Any:
        """Return `work(client, *arguments)` with a client of the broker."""

        async def ask() -> Any:
            properties = {
                **read_properties(self.folder / "admin.properties"),
                "bootstrap.servers": self.broker.bootstrap,
            }
            async with open_client(ClientConfig(properties)) as client:
                return await work(client, *arguments)

        return trio.run(ask)


@contextlib.contextmanager
def prepared(folder: Path) -> Iterator[Prepared]:
    """Run the broker during the block, with at least one object of each kind."""
    settings = [
        *SETTINGS["Kafka"],
        "auto.create.topics.enable=false",
        "group.initial.rebalance.delay.ms=0",
        "offsets.topic.num.partitions=1",
        "transaction.state.log.num.partitions=1",
        "transaction.partition.verification.enable=false",
    ]
    with running(ApacheKafka, settings) as broker:
        found = Prepared(broker, folder)
        _fill(found)
        yield found


def _fill(on: Prepared) -> None:
    on.do("topics create", "orders -p 3 -c retention.ms=600000 -c cleanup.policy=compact,delete")
    on.do("topics create", "sold written")
    on.until(lambda items: len(items) == 3, "topics list")
    on.write("lines.txt", "first\nsecond\n")
    on.do("produce", "orders {lines.txt} --partition 0 --key k")
    on.with_client(commit_offsets, "billing", {TopicPartition("orders", 0): Committed(1)})
    on.do("groups reset", "billing --to-latest --yes")
    (on.names["undo"],) = (each.stem for each in on.folder.glob("ottla/undo/*.json"))
    on.do("acls add", "--allow User:bob --operation read --topic orders")
    on.do("client-metrics set", "metrics --interval-ms 7000 --metric '*'")
    on.do("quotas set", "--user bob producer_byte_rate=1000")
    on.write("password", "wonderland\n")
    on.do("users add", "bob --password-file {password}")
    on.write("hmac", on.do("tokens create").items[0]["hmac"])
    on.with_client(_begin_transactions)
    on.write("topics.toml", "[topics.more]\npartitions = 1\nreplication_factor = 1\n")
    on.write("plan.json", '{"items": [{"topic": "gone", "partition": 0, "replicas": [1]}]}')
    on.write("quotas.json", on.do("quotas list").stdout.replace("1000.0", "2000.0"))
    (segment,) = on.broker.data.glob("log/orders-0/*.log")
    on.names["segment"] = str(segment)
    for words in ("acls list", "client-metrics list", "quotas list", "users list", "tokens list", "transactions list"):
        on.until(bool, words)


async def _begin_transactions(client: Client) -> None:
    """Create the transactional id `tx` without a transaction, and a hanging one at offset 0 of the topic `sold`."""
    known = InitProducerIdRequest(transactional_id="tx", transaction_timeout_ms=60_000)
    await client.ask(known, Coordinator(TRANSACTION, "tx"), InitProducerIdResponse)
    nameless = InitProducerIdRequest(transactional_id=None, transaction_timeout_ms=60_000)
    made = await client.ask(nameless, 1, InitProducerIdResponse)
    batch = build_batch(
        [NewRecord(value=b"lost", timestamp=int(time.time() * 1000))],
        producer_id=made.producer_id,
        producer_epoch=made.producer_epoch,
        base_sequence=0,
        transactional=True,
    )
    data = [TopicProduceData(name="sold", partition_data=[PartitionProduceData(index=0, records=batch)])]
    request = ProduceRequest(transactional_id="lost", acks=-1, timeout_ms=30_000, topic_data=data)
    answer = await client.ask(request, 1, ProduceResponse, highest=9)
    assert answer.responses[0].partition_responses[0].error_code == 0, answer
