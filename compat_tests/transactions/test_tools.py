"""Kafka's tools for transactions have the same output with Ottla as with Apache Kafka 3.9.2, word for word.

Both brokers have the same transactions; each command runs on one, then on the other. `make test` runs the tools of
Kafka 4.3, `make compat` also those of 3.9.
"""

import contextlib
import re
import shlex
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

import pytest

from compat_tests.support.brokers import LAST_WITH_ZOOKEEPER, NEWEST, Broker, Ottla, ZooKeeperKafka, running
from compat_tests.support.clients import Sent, confluent_produce, create_topic
from compat_tests.support.tools import Printed, Tools, normalized
from compat_tests.support.transactional import Transactions
from compat_tests.tools.imitation import console_transactions, transactions
from compat_tests.tools.imitation.tools import CLASSES, OLDER_CLASSES
from compat_tests.tools.tool_scenarios import HASTY
from compat_tests.transactions.clients import COMMITTED, UNCOMMITTED, end_offset, opened

pytestmark = [pytest.mark.slow, pytest.mark.process("tools for transactions")]
SETTINGS = [*transactions.SETTINGS["Kafka 3.9"], "offsets.topic.num.partitions=1"]
KINDS = {Ottla: "node.id=1", ZooKeeperKafka: "broker.id=1"}
RELEASES = {"4.3": (NEWEST, CLASSES), "3.9": (LAST_WITH_ZOOKEEPER, OLDER_CLASSES)}
AREAS = (transactions, console_transactions)
# Not about the broker.
OTHERS = ("wrong usage is refused", "tools for security without an authorizer")
SCENARIOS = {name: commands for area in AREAS for name, commands in area.COMMANDS.items() if not name.endswith(OTHERS)}
# Its consumers wait for seconds; `test_shims` runs it on Ottla.
SLOWEST = console_transactions.COMMANDS
BY_KIND = [pytest.param(0, id="ottla"), pytest.param(1, id="kafka", marks=pytest.mark.compat)]
DUMPED = (
    "LOGS/__transaction_state-0/00000000000000000000.log --transaction-log-decoder",
    "LOGS/__transaction_state-1/00000000000000000000.log --transaction-log-decoder",
    "LOGS/sold-0/00000000000000000000.log --print-data-log",
    "LOGS/sold-1/00000000000000000000.log --print-data-log",
    "LOGS/sold-0/00000000000000000000.txnindex",
    "LOGS/sold-1/00000000000000000000.txnindex",
)
RECORDS = 500
_CHECKSUM = re.compile(r"\bcrc: \d+")


class Side(NamedTuple):
    """Kafka's tools with a broker."""

    release: str
    tools: Tools
    broker: Broker

    def run(self, command: str) -> Printed:
        """Run a command, which begins with the tool's name; return its output without what differs by chance."""
        tool, *arguments = shlex.split(command)
        where = [] if tool == "dump-log" else ["--bootstrap-server", self.broker.bootstrap]
        printed = self.tools.run(RELEASES[self.release][1][tool], *where, *arguments)
        area = console_transactions if tool == "console-consumer" else transactions
        names = {self.broker.bootstrap: "HOST:PORT", str(self.broker.data): "DATA"}
        found = normalized(area.normalized(command, printed), names)
        # Kafka lists them in the order of a hash map.
        return found._replace(stdout="\n".join(sorted(found.stdout.splitlines()))) if " list" in command else found


@pytest.fixture(scope="module", params=["4.3", pytest.param("3.9", marks=pytest.mark.compat)])
def release(request: pytest.FixtureRequest) -> str:
    return str(request.param)


@pytest.fixture(scope="module")
def tools(release: str, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Tools]:
    folder = tmp_path_factory.mktemp("tools")
    for name, content in {**transactions.FILES, "hasty.properties": HASTY}.items():
        (folder / name).write_text(content)
    with Tools(folder, RELEASES[release][0]) as running_tools:
        yield running_tools


@pytest.fixture(scope="module")
def sides(release: str, tools: Tools) -> Iterator[list[Side]]:
    """Run Ottla and Kafka, each alone with the same transactions."""
    with contextlib.ExitStack() as stack:
        found = []
        for kind, identity in KINDS.items():
            broker = stack.enter_context(running(kind, [identity, *SETTINGS]))
            stack.callback(Transactions(broker.bootstrap).close)
            found.append(Side(release, tools, broker))
        yield found


@pytest.mark.parametrize("dumped", DUMPED)
def test_the_dump_tool_finds_the_same_in_the_files(dumped: str, sides: list[Side], tmp_path: Path) -> None:
    printed = []
    for number, side in enumerate(sides):
        # The tool cuts index files.
        logs = tmp_path / str(number)
        shutil.copytree(side.broker.data / "log", logs)
        found = side.run(f"dump-log --files {dumped.replace('LOGS', str(logs))}")
        stdout = _CHECKSUM.sub("crc: C", found.stdout.replace(str(logs), "LOGS"))
        printed.append(found._replace(stdout=stdout))
    ottla, apache_kafka = printed
    assert ottla == apache_kafka
    assert ottla.code == 0


@pytest.mark.parametrize(
    "name", [pytest.param(each, marks=pytest.mark.compat if each in SLOWEST else []) for each in SCENARIOS]
)
def test_the_tools_print_what_they_print_against_kafka(name: str, sides: list[Side]) -> None:
    for command in filter(None, map(str.strip, SCENARIOS[name].splitlines())):
        ottla, apache_kafka = (side.run(command) for side in sides)
        assert (command, ottla) == (command, apache_kafka)


@pytest.mark.parametrize("number", BY_KIND)
def test_the_perf_tool_writes_transactions(number: int, sides: list[Side]) -> None:
    side = sides[number]
    create_topic(side.broker.bootstrap, "performed")
    printed = side.tools.run(
        CLASSES["producer-perf-test"],
        *("--topic", "performed", "--num-records", str(RECORDS), "--record-size", "10", "--throughput", "5000"),
        *("--producer-props", f"bootstrap.servers={side.broker.bootstrap}"),
        *("--transactional-id", "performing", "--transaction-duration-ms", "20"),
    )
    assert (printed.code, printed.stderr) == (0, "")
    assert f"{RECORDS} records sent" in printed.stdout
    assert "CompleteCommit" in side.run("transactions describe --transactional-id performing").stdout
    written = committed(side, "performed")
    assert (len(written), {len(each) for each in written}) == (RECORDS, {10})


@pytest.mark.once
@pytest.mark.parametrize("number", BY_KIND)
def test_the_copying_tool_copies_each_record_once(number: int, sides: list[Side]) -> None:
    side = sides[number]
    bootstrap = side.broker.bootstrap
    for topic in ("copied", "copies"):
        create_topic(bootstrap, topic)
    values = [str(each) for each in range(RECORDS)]
    confluent_produce(bootstrap, "copied", [Sent(None, each.encode()) for each in values], "none")
    # The second run goes on where the first one ended. Both abort about a third of their transactions.
    for some in (RECORDS // 2, RECORDS - RECORDS // 2):
        printed = side.tools.run(
            "org.apache.kafka.tools.TransactionalMessageCopier",
            *("--broker-list", bootstrap, "--transactional-id", "copier", "--consumer-group", "copiers"),
            *("--input-topic", "copied", "--input-partition", "0", "--output-topic", "copies"),
            *("--max-messages", str(some), "--transaction-size", "10", "--enable-random-aborts"),
        )
        assert printed.code == 0, printed
    assert committed(side, "copies") == values
    with opened("confluent-kafka") as client:
        tried = client.read(bootstrap, "copies", UNCOMMITTED, end_offset(bootstrap, "copies", UNCOMMITTED))
    assert len(tried) > len(values)


def committed(side: Side, topic: str) -> list[str]:
    """Return the values that a reader of committed records gets."""
    bootstrap = side.broker.bootstrap
    with opened("confluent-kafka") as client:
        return client.read(bootstrap, topic, COMMITTED, end_offset(bootstrap, topic, COMMITTED))
