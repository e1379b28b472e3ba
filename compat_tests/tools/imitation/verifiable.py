"""kafka-verifiable-producer and kafka-verifiable-consumer.

Each of Kafka's programs runs in a JVM of its own, because it prints its last lines at the end of the JVM. Times and
rates are masked. Topics have one partition if events are compared, because the order between partitions is chance.
"""

import json
import re
import subprocess
from functools import partial

from compat_tests.support.brokers import Broker
from compat_tests.support.tools import Printed, Tools

_TOPIC = "org.apache.kafka.tools.TopicCommand"
# Exceptions after log lines, which the logging of 3.9's tools does not print.
_LOGGED = re.compile(r"^\[[^\]\n]+\] ERROR .*\([\w.$]+\)\n|^[\w.$]+Exception: .*\n", re.MULTILINE)
TOPICS = ("numbers", "keys", "times", "read", "polled", "limited", "automatic")
FILES = {
    "client.properties": "client.id=someone\n",
    "wrong.properties": "acks=7\n",
    "small.properties": "max.request.size=10\n",
    "few.properties": "max.poll.records=3\n",
}


def prepare(tools: Tools, broker: Broker) -> None:
    """Create the topics, and make each of Kafka's tools run in a JVM of its own."""
    for topic in TOPICS:
        arguments = ("--create", "--topic", topic, "--partitions", "1", "--replication-factor", "1")
        assert tools.run(_TOPIC, "--bootstrap-server", broker.bootstrap, *arguments).code == 0
    tools.run = partial(_run_alone, tools)  # type: ignore[method-assign]


def _run_alone(tools: Tools, main_class: str, *arguments: str) -> Printed:
    *java, _ = tools._command
    done = subprocess.run([*java, main_class, *arguments], cwd=tools._folder, capture_output=True, timeout=120)
    return Printed(done.returncode, done.stdout.decode(), done.stderr.decode())


def normalized(command: str, printed: Printed) -> Printed:
    """Mask times and rates, and leave out the imitation's log lines; those of Kafka's programs are left out already."""
    stdout = "".join(_event(line) if line.startswith("{") else line for line in printed.stdout.splitlines(True))
    return printed._replace(stdout=stdout, stderr=_LOGGED.sub("", printed.stderr))


def _event(line: str) -> str:
    """Return an event with its time, its name, and the other values sorted, because Java's order is random."""
    found = re.sub(r'"(timestamp|avg_throughput)":[\d.E-]+', r'"\1":"N"', line)
    first, second, *others = json.loads(found).items()
    return json.dumps([first, second, *sorted(others)]) + "\n"


_WRITE = "verifiable-producer --max-messages"
_ROUND_ROBIN = "org.apache.kafka.clients.consumer.RoundRobinAssignor"
_READ = "verifiable-consumer --group-id"
COMMANDS = {
    "verifiable: a producer's events": f"""
        {_WRITE} 3 --topic numbers
        {_WRITE} 3 --topic numbers --acks 0
        {_WRITE} 3 --topic numbers --acks 1 --value-prefix 7 --throughput 1000
        {_WRITE} 5 --topic keys --repeating-keys 2
        {_WRITE} 2 --topic times --message-create-time 1700000000000 --command-config client.properties
        {_WRITE} 2 --topic numbers --producer.config client.properties
        {_WRITE} 2 --topic numbers --command-config small.properties
        {_WRITE} 2 --topic not/a/topic
        {_WRITE} 0 --topic numbers
        get-offsets --topic-partitions numbers,keys,times
    """,
    "verifiable: a producer's wrong usage": f"""
        verifiable-producer --frob
        {_WRITE} 1
        {_WRITE} many --topic numbers
        {_WRITE} 1 --topic numbers --acks 2
        {_WRITE} 1 --topic numbers --command-config wrong.properties
        {_WRITE} 1 --topic numbers --command-config nowhere.properties
        {_WRITE} 1 --topic numbers --command-config client.properties --producer.config client.properties
    """,
    "verifiable: a consumer's events": f"""
        {_WRITE} 10 --topic read --value-prefix 1 --repeating-keys 3
        {_READ} first --topic read --max-messages 4 --verbose
        {_READ} first --topic read --max-messages 6
        {_READ} few --topic read --max-messages 10 --command-config few.properties
        {_READ} older --topic read --max-messages 1 --consumer.config client.properties --session-timeout 10000
        {_READ} spread --topic read --max-messages 1 --assignment-strategy {_ROUND_ROBIN}
        {_READ} static --topic read --max-messages 2 --group-instance-id one
        {_READ} none --topic read --max-messages 1 --reset-policy none
        {_READ} automatic --topic read --max-messages 3 --enable-autocommit
        {_READ} other --topic read --max-messages 1 --group-protocol other
        consumer-groups --describe --offsets --group first
        consumer-groups --describe --offsets --group automatic
        {_READ} nothing --topic read --max-messages 0
    """,
    "verifiable: a consumer's wrong usage": f"""
        verifiable-consumer --frob
        {_READ} g
        verifiable-consumer --topic read
        {_READ} g --topic read --max-messages many
        {_READ} g --topic read --assignment-strategy com.example.Mine
        {_READ} g --topic read --command-config nowhere.properties
        {_READ} g --topic read --command-config client.properties --consumer.config client.properties
    """,
}
