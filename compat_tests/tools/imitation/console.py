"""kafka-console-producer and kafka-console-consumer.

Topics have one partition if lines are compared, because the order between partitions is chance. The producer waits for
each record (--sync), because in one JVM with other tools its records would arrive later.
"""

import re

from compat_tests.support.brokers import Broker
from compat_tests.support.tools import Printed, Tools

_TOPIC = "org.apache.kafka.tools.TopicCommand"
# The imitation's log lines. Those of Kafka's tools are left out already, but in 3.9 not the exceptions after them.
_LOGGED = re.compile(r"^\[[^\]\n]+\] ERROR .*\([\w.$]+\)\n", re.MULTILINE)
_EXCEPTIONS = re.compile(r"^(?:[\w.$]+Exception|Caused by).*\n", re.MULTILINE)
# Values that differ between clusters.
_OWN = re.compile(r'"(commitTimestamp|topicId)":(?:\d+|"[^"]*")')
TOPICS = ("plain", "keys", "headers", "nulls", "typed", "committed", "limited", "codecs")
FILES = {
    "lines.txt": "one\ntwo\n\nfour äöü\r\nfive\rsix",
    "keys.txt": "k1\tv1\nk2\tv2\n\tempty key\nk4\t\n",
    "colons.txt": "k1:v1\nk2:v2:more\n",
    "missing.txt": "k1:v1\nno separator\nk3:v3\n",
    "headers.txt": "h1:v1,h2:v2\tk1\tv1\nh1:a,h1:b,\tk2\tv2\nh3:\tk3\tv3\n",
    "broken-headers.txt": "h1:v1\tk1\tv1\nh1,h2:v2\tk2\tv2\n",
    "nulls.txt": "NULL\tNULL\nh:NULL,i:x\tNULL\nNULL\tv3\n",
    "null-header-key.txt": "NULL:x\tv\n",
    "eight.txt": "abcdefgh\n",
    "four.txt": "abcd\n",
    "uuid.txt": "123e4567-e89b-12d3-a456-426614174000\n",
    "large.txt": "x" * 1_100_000 + "\n",
    "reader.properties": "parse.key=true\nkey.separator=;\n",
    "semicolons.txt": "k;v\n",
    "formatter.properties": "print.key=true\nkey.separator=|\n",
    "producer.properties": "acks=1\nclient.id=someone\n",
    "group.properties": "group.id=from-a-file\n",
}


def prepare(tools: Tools, broker: Broker) -> None:
    """Create the topics."""
    for topic in TOPICS:
        arguments = ("--create", "--topic", topic, "--partitions", "1", "--replication-factor", "1")
        assert tools.run(_TOPIC, "--bootstrap-server", broker.bootstrap, *arguments).code == 0


def normalized(command: str, printed: Printed) -> Printed:
    """Leave out log lines and the lines after them, because a tool logs its timeout."""
    is_logged = any(flag in command for flag in ("--timeout-ms", "--skip-message-on-error"))
    stderr = "" if is_logged else _LOGGED.sub("", printed.stderr)
    if command.startswith("console-consumer"):
        # This tool logs all its exceptions.
        stderr = _EXCEPTIONS.sub("", stderr)
    # Groups with a random name may be in the same partition.
    parts = re.split(r'(?<=\})(?=\{"key")', printed.stdout)
    stdout = "".join(part for part in parts if '"group":"console-consumer-' not in part)
    return printed._replace(stdout=_OWN.sub(r'"\1":0', stdout), stderr=stderr)


_CONSUME = "console-consumer --from-beginning --max-messages"
_AT = "console-consumer --partition 0 --max-messages 1 --offset"
# The partition with the commits of the group og.
_COMMITS = "console-consumer --topic __consumer_offsets --partition 44 --offset earliest --timeout-ms 3000"
_READER = "--reader-property"
_KEY, _HEADERS = (f"{_READER} parse.{each}=true" for each in ("key", "headers"))
_SHOW = "--formatter-property"
_SHOW_KEY, _SHOW_HEADERS = (f"{_SHOW} print.{each}=true" for each in ("key", "headers"))
_CLASSES = "org.apache.kafka.common.serialization"
COMMANDS = {
    "console: lines are records, and are printed as they are": f"""
        console-producer --topic plain --sync < lines.txt
        {_CONSUME} 6 --topic plain
        {_CONSUME} 2 --topic plain
        {_CONSUME} 3 --topic plain --partition 0 {_SHOW} print.offset=true
        console-consumer --topic plain --partition 0 --offset 4 --max-messages 2
        {_AT} 5 --topic plain {_SHOW} print.partition=true
        console-consumer --topic plain --partition 0 --offset latest --timeout-ms 500
        console-consumer --topic plain --partition 0 --offset EARLIEST --max-messages 0
        {_CONSUME} 6 --include pla.n
        {_CONSUME} 1 --topic plain --formatter org.apache.kafka.tools.consumer.NoOpMessageFormatter
        {_CONSUME} 1 --topic plain --formatter org.apache.kafka.tools.consumer.LoggingMessageFormatter
        {_CONSUME} 1 --topic plain --isolation-level read_committed
        {_CONSUME} 1 --topic plain {_SHOW} print.epoch=true {_SHOW} print.delivery=true
        {_CONSUME} 1 --topic plain {_SHOW} print.value=false {_SHOW} print.offset=true
    """,
    "console: keys stand before a separator": f"""
        console-producer --topic keys --sync {_KEY} < keys.txt
        console-producer --topic keys --sync --property parse.key=true --property key.separator=: < colons.txt
        console-producer --topic keys --sync --reader-config reader.properties < semicolons.txt
        console-producer --topic keys --sync {_KEY} {_READER} key.separator=: < missing.txt
        console-producer --topic keys --sync {_KEY} {_READER} key.separator=: {_READER} ignore.error=true < missing.txt
        {_CONSUME} 11 --topic keys {_SHOW_KEY}
        {_CONSUME} 3 --topic keys --property print.key=true --property key.separator=/ --property line.separator=;
        {_CONSUME} 2 --topic keys --formatter-config formatter.properties
        {_CONSUME} 2 --topic keys {_SHOW_KEY} {_SHOW} print.value=false
    """,
    "console: headers stand before the key": f"""
        console-producer --topic headers --sync {_KEY} {_HEADERS} < headers.txt
        console-producer --topic headers --sync {_KEY} {_HEADERS} < broken-headers.txt
        console-producer --topic headers --sync {_HEADERS} {_READER} ignore.error=true < broken-headers.txt
        {_CONSUME} 6 --topic headers {_SHOW_HEADERS} {_SHOW_KEY}
        {_CONSUME} 6 --topic headers {_SHOW_HEADERS} {_SHOW} headers.separator=; {_SHOW} print.value=false
    """,
    "console: a marker is null": f"""
        console-producer --topic nulls --sync {_KEY} {_READER} null.marker=NULL < nulls.txt
        console-producer --topic nulls --sync {_HEADERS} {_READER} null.marker=NULL < nulls.txt
        console-producer --topic nulls --sync {_HEADERS} {_READER} null.marker=NULL < null-header-key.txt
        {_CONSUME} 6 --topic nulls {_SHOW_HEADERS} {_SHOW_KEY}
        {_CONSUME} 6 --topic nulls {_SHOW_KEY} {_SHOW} null.literal=-
    """,
    "console: deserializers of Kafka's own read values": f"""
        console-producer --topic typed --sync < eight.txt
        {_CONSUME} 1 --topic typed --value-deserializer {_CLASSES}.LongDeserializer
        {_CONSUME} 1 --topic typed --value-deserializer {_CLASSES}.DoubleDeserializer
        {_CONSUME} 1 --topic typed --value-deserializer {_CLASSES}.StringDeserializer
        {_CONSUME} 1 --topic typed --value-deserializer {_CLASSES}.BytesDeserializer
        {_CONSUME} 1 --topic typed --value-deserializer {_CLASSES}.IntegerDeserializer
        {_CONSUME} 1 --topic typed --value-deserializer {_CLASSES}.IntegerDeserializer --skip-message-on-error
        {_CONSUME} 1 --topic typed --value-deserializer {_CLASSES}.UUIDDeserializer
        {_CONSUME} 1 --topic typed {_SHOW_KEY} --key-deserializer {_CLASSES}.IntegerDeserializer
        console-producer --topic typed --sync < four.txt
        {_AT} 1 --topic typed --value-deserializer {_CLASSES}.IntegerDeserializer
        {_AT} 1 --topic typed --value-deserializer {_CLASSES}.FloatDeserializer
        {_AT} 1 --topic typed --value-deserializer {_CLASSES}.ShortDeserializer
        console-producer --topic typed --sync < uuid.txt
        {_AT} 2 --topic typed --value-deserializer {_CLASSES}.UUIDDeserializer
    """,
    "console: a group goes on where it has committed": f"""
        console-producer --topic committed --sync < lines.txt
        {_CONSUME} 2 --topic committed --group g
        {_CONSUME} 3 --topic committed --group g {_SHOW} print.offset=true
        {_CONSUME} 1 --topic committed --group g --consumer-property client.id=someone
        {_CONSUME} 1 --topic committed --command-property group.id=h
        {_CONSUME} 1 --topic committed --consumer.config group.properties
        {_CONSUME} 1 --topic committed --command-config group.properties
        consumer-groups --describe --group g --offsets
        consumer-groups --describe --group from-a-file --offsets
    """,
    "console: committed offsets are printed as JSON": f"""
        consumer-groups --reset-offsets --group og --topic limited --to-offset 0 --execute
        {_COMMITS} --formatter org.apache.kafka.tools.consumer.OffsetsMessageFormatter
        {_COMMITS} --formatter org.apache.kafka.tools.consumer.GroupMetadataMessageFormatter
    """,
    "console: the producer's flags reach the producer": f"""
        console-producer --topic codecs --sync --compression-codec < four.txt
        console-producer --topic codecs --sync --compression-codec zstd < four.txt
        console-producer --topic codecs --sync --compression-codec=lz4 --request-required-acks 1 < four.txt
        console-producer --topic codecs --sync --compression-codec snappy --producer-property acks=1 < four.txt
        console-producer --topic codecs --sync --producer.config producer.properties --batch-size 0 < four.txt
        console-producer --topic codecs --sync --max-partition-memory-bytes 10 --timeout 0 < four.txt
        console-producer --topic codecs --sync --message-send-max-retries 5 --retry-backoff-ms 10 < four.txt
        console-producer --topic codecs --sync --request-timeout-ms 5000 --metadata-expiry-ms 1000 < four.txt
        console-producer --topic codecs --sync --max-block-ms 10000 --max-memory-bytes 1000000 < four.txt
        console-producer --topic codecs --sync --socket-buffer-size 1000 < four.txt
        {_CONSUME} 10 --topic codecs {_SHOW} print.offset=true
        console-producer --topic limited --sync < large.txt
    """,
    "console: wrong usage of the producer is refused": f"""
        console-producer
        console-producer --help
        console-producer --version
        console-producer --frob
        console-producer --topic
        console-producer --topic t --bootstrap-server nowhere
        console-producer --topic t --topic u
        console-producer --topic t --batch-size many < four.txt
        console-producer --topic t --compression-codec bzip2 < four.txt
        console-producer --topic t --request-required-acks 7 < four.txt
        console-producer --topic t --producer-property a=b --command-property c=d
        console-producer --topic t --producer.config producer.properties --command-config producer.properties
        console-producer --topic t {_READER} a=b --property c=d
        console-producer --topic t --command-config nowhere.properties < four.txt
        console-producer --topic t --reader-config nowhere.properties < four.txt
        console-producer --topic t {_READER} key.separator=x {_READER} null.marker=x < four.txt
        console-producer --topic t {_READER} headers.delimiter=, < four.txt
        console-producer --topic t {_READER} headers.separator=: < four.txt
        console-producer --topic t {_READER} headers.key.separator=y {_READER} null.marker=y < four.txt
    """,
    "console: wrong usage of the consumer is refused": f"""
        console-consumer
        console-consumer --help
        console-consumer --version
        console-consumer --frob
        console-consumer --topic t --include t
        console-consumer --max-messages 1
        console-consumer --topic t --offset 1
        console-consumer --include t --partition 0
        console-consumer --topic t --partition 0 --from-beginning --offset 1
        console-consumer --topic t --partition 0 --offset -1
        console-consumer --topic t --partition 0 --offset some
        console-consumer --topic t --partition many
        console-consumer --topic t --timeout-ms soon
        console-consumer --topic t --max-messages many
        console-consumer --topic t --group a --consumer-property group.id=b
        console-consumer --topic t --group a --partition 0
        console-consumer --topic t --from-beginning --consumer-property auto.offset.reset=latest
        console-consumer --topic t --isolation-level serializable
        console-consumer --topic t --consumer-property a=b --command-property c=d
        console-consumer --topic t --consumer.config group.properties --command-config group.properties
        console-consumer --topic t --property a=b {_SHOW} c=d
        console-consumer --topic t --command-config nowhere.properties
        console-consumer --topic t --formatter-config nowhere.properties
        console-consumer --topic t --whitelist t
        console-consumer --topic t --consumer-property session.timeout.ms=never
    """,
}
