"""kafka-configs for topics, brokers, loggers and groups."""

import re

from compat_tests.support.tools import Printed
from compat_tests.tools import tool_scenarios

prepare = tool_scenarios.prepare
FILES = {
    "topic.properties": "retention.ms=7300000\ncleanup.policy=compact,delete\n",
    "empty.properties": "",
}
COMMANDS = {
    **tool_scenarios.of_tool("configs"),
    "topics have configs": tool_scenarios.SCENARIOS["topics have configs"],
    "configs that a topic cannot have are refused": tool_scenarios.SCENARIOS[
        "configs that a topic cannot have are refused"
    ],
    "configs: wrong usage is refused": """
        configs
        configs --help
        configs --version
        configs --frob
        configs --topic
        configs --describe
        configs --alter --describe --topic filled
        configs --describe --topic filled --add-config a=b
        configs --describe --topic filled --delete-config a
        configs --describe BOOTSTRAP --topic filled
        configs --describe --topic filled --broker 1
        configs --describe --topic filled --entity-type topics
        configs --describe --entity-type topics --entity-type topics --entity-name filled
        configs --describe --entity-type gadgets --entity-name filled
        configs --describe --entity-type users --entity-type topics
        configs --describe --topic a --topic b
        configs --describe --entity-type topics --entity-default
        configs --describe --entity-type broker-loggers
        configs --describe --entity-type broker-loggers --entity-default
        configs --describe --entity-type topics --entity-name a --entity-name filled
        configs --describe --broker one
        configs --describe --broker 99999999999
        configs --describe --entity-type brokers --entity-name one
        configs --describe --ip no-such-host.invalid
        configs --alter --topic filled
        configs --alter --entity-type topics --add-config a=b
        configs --alter --entity-type brokers --add-config a=b
        configs --alter --entity-type users --entity-type clients --entity-name a --add-config producer_byte_rate=1
        configs --alter --topic filled --add-config retention.ms
        configs --alter --topic filled --add-config retention.ms=1=2
        configs --alter --topic filled --add-config a=b --add-config-file topic.properties
        configs --alter --topic filled --add-config-file no-such-file.properties
        configs --alter --topic filled --add-config 'bad/key=1'
        configs --alter --topic filled --add-config 'bad$key=1'
        configs --command-config no-such-file.properties --describe --topic filled
        configs --describe --topic filled --bootstrap-controller BOOTSTRAP --bootstrap-server BOOTSTRAP
        configs --describe --topic filled --group g
    """,
    "configs: topics are altered in every spelling": """
        topics --create --topic spelled
        configs --alter --entity-type topics --entity-name spelled --add-config segment.ms=9000000
        configs --describe --entity-type topics --entity-name spelled
        configs --alter --topic spelled --add-config-file topic.properties
        configs --describe --topic spelled
        configs --alter --topic spelled --add-config-file empty.properties
        configs --alter --topic spelled --add-config 'retention.ms = 7400000 , segment.bytes=1048577'
        configs --alter --topic spelled --add-config segment.ms=9100000 --delete-config retention.ms,cleanup.policy
        configs --describe --topic spelled
        configs --alter --topic spelled --add-config segment.ms=9200000 --delete-config segment.ms
        configs --alter --topic spelled --delete-config 'segment.ms,segment.bytes'
        configs --alter --topic spelled --add-config=
        configs --describe --topic spelled
        configs --alter --topic spelled --add-config bogus.one=1,bogus.two=2,bogus.three=3,bogus.four=4,bogus.five=5
    """,
    "configs: the whole of a broker and of its defaults is described": """
        configs --describe --broker 1 --all
        configs --describe --entity-type brokers --entity-default
        configs --describe --entity-type brokers --entity-default --all
        configs --alter --entity-type brokers --entity-default --add-config log.cleaner.threads=1
        configs --describe --entity-type brokers
        configs --alter --entity-type brokers --entity-name 1 --add-config log.cleaner.threads=2
        configs --describe --entity-type brokers --entity-name 1
        configs --alter --entity-type brokers --entity-name 1 --delete-config log.cleaner.threads
        configs --alter --entity-type brokers --entity-default --delete-config log.cleaner.threads
        configs --describe --broker-defaults
    """,
    "configs: groups have configs": """
        configs --describe --group first
        configs --describe --entity-type groups
        configs --describe --topic gone --all
        configs --alter --group first --add-config consumer.session.timeout.ms=46000
        configs --alter --entity-type groups --entity-name second --add-config share.auto.offset.reset=earliest
        configs --describe --group first
        configs --describe --entity-type groups --entity-name second
        configs --alter --group third --add-config consumer.heartbeat.interval.ms=6000
        configs --alter --group fourth --add-config consumer.heartbeat.interval.ms=6000
        configs --alter --group fifth --add-config consumer.heartbeat.interval.ms=6000
        configs --alter --group sixth --add-config consumer.heartbeat.interval.ms=6000
        configs --describe --group sixth
        configs --describe --entity-type groups
        configs --describe --group first --all
        configs --alter --group first --add-config bogus=1
        configs --alter --group first --add-config consumer.session.timeout.ms=1
        configs --alter --group first --delete-config consumer.session.timeout.ms
        configs --describe --group first
        configs --describe --group gone
    """,
}


def normalized(command: str, printed: Printed) -> Printed:
    """Leave out ports and random ids."""
    text = re.sub(r"127\.0\.0\.1:\d+", "HOST:PORT", printed.stdout)
    return printed._replace(stdout=text)
