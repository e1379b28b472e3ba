"""kafka-producer-perf-test, kafka-consumer-perf-test and kafka-e2e-latency.

Lines with figures are compared by their form: digits are masked, and equal lines in a row become one, because the
number of intervals is chance. Only the metrics of our client are compared.
"""

import re

from compat_tests.support.brokers import Broker
from compat_tests.support.tools import Printed, Tools

_TOPIC = "org.apache.kafka.tools.TopicCommand"
# The metrics that both Kafka's clients and ours have.
_PRODUCER = (
    *("batch-size-avg", "batch-size-max", "buffer-available-bytes", "buffer-total-bytes", "records-per-request-avg"),
    *("request-latency-avg", "request-latency-max", "requests-in-flight"),
)
_OF_RECORDS = [f"record-{what}-{kind}" for what in ("error", "retry", "send") for kind in ("rate", "total")]
_CONSUMER = [f"{what}-consumed-{kind}" for what in ("bytes", "records") for kind in ("rate", "total")]
_METRICS = {
    *(f"producer-metrics:{name}" for name in (*_PRODUCER, *_OF_RECORDS)),
    *(f"producer-topic-metrics:{name}" for name in ("byte-rate", "byte-total", *_OF_RECORDS)),
    *(f"consumer-fetch-manager-metrics:{name}" for name in _CONSUMER),
    "consumer-coordinator-metrics:assigned-partitions",
    *(f"app-info:{name}" for name in ("commit-id", "start-time-ms", "version")),
    "kafka-metrics-count:count",
}
TOPICS = ("load", "older", "trips", "short")
FILES = {
    "payloads.txt": "one\ntwo\n\nthree\n",
    "semicolons.txt": ";a;b;;",
    "empty.txt": "",
    "client.properties": "client.id=someone\n",
    "wrong.properties": "acks=7\n",
}


def prepare(tools: Tools, broker: Broker) -> None:
    """Create the topics."""
    for topic in TOPICS:
        arguments = ("--create", "--topic", topic, "--partitions", "1", "--replication-factor", "1")
        assert tools.run(_TOPIC, "--bootstrap-server", broker.bootstrap, *arguments).code == 0


def normalized(command: str, printed: Printed) -> Printed:
    """Mask figures, and folders of files."""
    found = re.sub(r"(from: ).*/", r"\1", printed.stdout)
    lines = [_masked(line) for line in found.splitlines() if _is_shared(line)]
    stdout = "\n".join(line for at, line in enumerate(lines) if at == 0 or line != lines[at - 1])
    # The log lines of Kafka's client for an invalid topic are left out already, with the exceptions after them.
    stderr = re.sub(r"^.*InvalidTopicException: .*\n", "", printed.stderr, flags=re.MULTILINE)
    return printed._replace(stdout=stdout, stderr=_masked(stderr))


def _masked(line: str) -> str:
    if re.match(r"[\w-]+:[\w-]+:\{|Metric Name ", line):
        # A column is as wide as its longest name, and Kafka's client has more names.
        return re.sub(r" +: .*| +Value$", " : VALUE", line)
    return re.sub(r"-?\d+(?:\.\d+)?(?:E-?\d+)?|NaN|-?Infinity", "N", line)


def _is_shared(line: str) -> bool:
    """Whether a line is not a metric, or a metric of our clients; our consumer does not count by topics."""
    name = re.match(r"([\w-]+:[\w-]+):\{", line)
    return name is None or (name[1] in _METRICS and not (name[1].startswith("consumer-fetch") and "topic=" in line))


_WRITE = "producer-perf-test --topic load --num-records"
_OLDER = "producer-perf-test --topic older --num-records"
_PROPERTIES = "--producer-props bootstrap.servers=BOOTSTRAP"
_READ_OLDER = "consumer-perf-test --topic older --messages"
_READ = "consumer-perf-test --topic load --num-records"
_TRIP = "e2e-latency --bootstrap-server BOOTSTRAP --topic trips --producer-acks 1 --num-records"
COMMANDS = {
    "perf: a producer's lines": f"""
        {_WRITE} 500 --record-size 100 --throughput -1
        {_WRITE} 40 --record-size 10 --throughput 40 --reporting-interval 200
        {_WRITE} 40 --record-size 10 --throughput 20 --reporting-interval 200 --warmup-records 20
        {_WRITE} 10 --payload-monotonic --throughput -1 --command-property acks=1 linger.ms=0
        {_WRITE} 10 --payload-monotonic --throughput 1e6 --producer-props acks=1
        {_WRITE} 10 --payload-file payloads.txt --throughput -1
        {_WRITE} 10 --payload-file semicolons.txt --payload-delimiter ; --throughput -1
        {_WRITE} 10 --payload-monotonic --throughput -1 --command-config client.properties
        {_WRITE} 10 --payload-monotonic --throughput -1 --producer.config client.properties
        {_WRITE} 10 --record-size 10 --throughput -1 --print-metrics
        {_WRITE} 2 --record-size 2000000 --throughput -1
        producer-perf-test --topic not/a/topic --num-records 2 --record-size 10 --throughput -1
    """,
    "perf: a producer's lines, as 3.9 is told where the brokers are": f"""
        {_OLDER} 500 --record-size 100 --throughput -1 {_PROPERTIES}
        {_OLDER} 10 --payload-monotonic --throughput 1e6 {_PROPERTIES} acks=1 linger.ms=0
        {_OLDER} 10 --payload-file payloads.txt --throughput -1 {_PROPERTIES}
        {_OLDER} 10 --payload-file semicolons.txt --payload-delimiter ; --throughput -1 {_PROPERTIES}
        {_OLDER} 10 --record-size 10 --throughput -1 --print-metrics {_PROPERTIES}
        {_OLDER} 2 --record-size 2000000 --throughput -1 {_PROPERTIES}
        {_OLDER} 10 --record-size 10 --throughput -1 {_PROPERTIES} --producer.config client.properties
        {_OLDER} 0 --record-size 10 --throughput -1 {_PROPERTIES}
        {_OLDER} -1 --record-size 10 --throughput -1 {_PROPERTIES}
        {_OLDER} -5 --record-size 10 --throughput -1 {_PROPERTIES}
        {_OLDER} 10 --record-size 0 --throughput -1 {_PROPERTIES}
        {_OLDER} 10 --throughput -1 {_PROPERTIES}
        {_OLDER} 10 --payload-file empty.txt --throughput -1 {_PROPERTIES}
        {_OLDER} 10 --record-size 10 --throughput -1 {_PROPERTIES} a
        {_OLDER} 10 --record-size 10 --throughput -1 {_PROPERTIES} acks=7
        {_OLDER} 10 --record-size 10 --throughput -1 --producer.config nowhere.properties {_PROPERTIES}
        {_READ_OLDER} 500
        {_READ_OLDER} 500 --hide-header --group g
        {_READ_OLDER} 500 --show-detailed-stats --reporting-interval 1
        {_READ_OLDER} 500 --date-format HH:mm --threads 2
        {_READ_OLDER} 10 --fetch-size 1000 --socket-buffer-size 100000 --consumer.config client.properties
        {_READ_OLDER} 500 --print-metrics
        consumer-perf-test --broker-list BOOTSTRAP --topic older --messages 10
    """,
    "perf: a producer's wrong usage": f"""
        producer-perf-test
        producer-perf-test --help
        producer-perf-test --frob
        {_WRITE} many --record-size 10 --throughput -1
        {_WRITE} 0 --record-size 10 --throughput -1
        {_WRITE} 10 --record-size 0 --throughput -1
        {_WRITE} 10 --throughput -1
        {_WRITE} 10 --record-size 10 --payload-monotonic --throughput -1
        {_WRITE} 10 --record-size 10
        {_WRITE} 10 --record-size 10 --throughput -1 --warmup-records 10
        {_WRITE} 10 --record-size 10 --throughput -1 --reporting-interval 0
        {_WRITE} 10 --record-size 10 --throughput -1 --transaction-duration-ms 0
        {_WRITE} 10 --record-size 10 --throughput -1 --command-property a=b --producer-props c=d
        {_WRITE} 10 --record-size 10 --throughput -1 --command-config a --producer.config b
        {_WRITE} 10 --record-size 10 --throughput -1 --command-property a
        {_WRITE} 10 --record-size 10 --throughput -1 --command-property a=b=c
        {_WRITE} 10 --record-size 10 --throughput -1 --command-config wrong.properties
        {_WRITE} 10 --payload-file nowhere.txt --throughput -1
        {_WRITE} 10 --payload-file empty.txt --throughput -1
    """,
    "perf: a consumer's lines": f"""
        {_WRITE} 500 --record-size 100 --throughput -1
        {_READ} 500
        {_READ} 500 --hide-header --group g
        {_READ} 500 --show-detailed-stats --reporting-interval 1
        {_READ} 500 --date-format HH:mm
        {_READ} 10 --command-property client.id=someone --fetch-size 1000 --socket-buffer-size 100000
        {_READ} 10 --command-config client.properties --from-latest --timeout 1
        {_READ} 10 --consumer.config client.properties
        consumer-perf-test --topic load --messages 10 --print-metrics
        consumer-perf-test --include lo.d --num-records 10
        consumer-perf-test --topic short --num-records 10 --timeout 3000
    """,
    "perf: a consumer's wrong usage": f"""
        consumer-perf-test
        consumer-perf-test --help
        consumer-perf-test --version
        consumer-perf-test --frob
        consumer-perf-test --topic load
        consumer-perf-test --topic load --include load --num-records 1
        consumer-perf-test --num-records 1
        {_READ} 1 --messages 1
        {_READ} many
        {_READ} 1 --reporting-interval 0
        {_READ} 1 --date-format b
        {_READ} 1 --command-config nowhere.properties
        {_READ} 1 --command-config client.properties --consumer.config client.properties
        {_READ} 1 --fetch-size some
    """,
    "perf: round trips": f"""
        {_TRIP} 5 --record-size 10
        {_TRIP} 5 --record-size 10 --record-key-size 3
        {_TRIP} 5 --record-size 10 --num-headers 2 --record-header-key-size 2 --record-header-size -1
        {_TRIP} 5 --record-size 0 --command-config client.properties --num-headers 1
        e2e-latency BOOTSTRAP fresh 3 all 10
        e2e-latency BOOTSTRAP trips 3 1 10 client.properties
    """,
    "perf: wrong usage of round trips": f"""
        e2e-latency BOOTSTRAP
        e2e-latency BOOTSTRAP trips 3 1 many
        e2e-latency BOOTSTRAP trips 3 0 10
        e2e-latency BOOTSTRAP not/a/topic 3 all 10
        e2e-latency BOOTSTRAP trips 3 1 10 nowhere.properties
        e2e-latency --bootstrap-server BOOTSTRAP --help
        e2e-latency --bootstrap-server BOOTSTRAP --frob
        e2e-latency --bootstrap-server BOOTSTRAP
        {_TRIP} 0 --record-size 10
        {_TRIP} 1 --record-size -1
        {_TRIP} 1 --record-size 1 --record-key-size -1
        {_TRIP} 1 --record-size 1 --record-header-size -2
        {_TRIP} 1 --record-size 1 --record-header-key-size -2
        {_TRIP} 1 --record-size 1 --num-headers -2
        {_TRIP} many --record-size 1
    """,
}
