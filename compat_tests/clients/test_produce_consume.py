"""Stock producers and consumers: every codec, keys, nulls, headers, large messages, and each other's records."""

import pytest

from compat_tests.support.brokers import Broker
from compat_tests.support.clients import CODECS, CONSUMERS, PRODUCERS, Sent, create_topic

RECORDS = [
    Sent(b"key", b"value"),
    Sent(None, b"no key"),
    Sent(b"tombstone", None),
    Sent(b"headers", b"some", (("trace", b"1"), ("span", b"2"))),
    *[Sent(b"k%d" % i, b"a value that compresses " * 20) for i in range(50)],
]
LIBRARIES = ("kafka-python", "confluent-kafka", "aiokafka")
PRODUCER_AND_CODEC = list(zip((*LIBRARIES, "console", "kafka-python"), CODECS, strict=True))

pytestmark = pytest.mark.slow


@pytest.mark.parametrize("codec", CODECS)
@pytest.mark.parametrize("producer", LIBRARIES)
def test_what_a_library_produces_every_library_reads(broker: Broker, topic: str, producer: str, codec: str) -> None:
    create_topic(broker.bootstrap, topic)
    PRODUCERS[producer](broker.bootstrap, topic, RECORDS, codec)
    for consumer in LIBRARIES:
        assert CONSUMERS[consumer](broker.bootstrap, topic, len(RECORDS)) == RECORDS, consumer


@pytest.mark.parametrize("codec", CODECS)
def test_the_java_console_producer_is_read_by_all(broker: Broker, topic: str, codec: str) -> None:
    create_topic(broker.bootstrap, topic)
    PRODUCERS["console"](broker.bootstrap, topic, RECORDS, codec)
    for consumer in LIBRARIES:
        assert CONSUMERS[consumer](broker.bootstrap, topic, len(RECORDS)) == RECORDS, consumer


@pytest.mark.parametrize(("producer", "codec"), PRODUCER_AND_CODEC)
def test_the_java_console_consumer_reads_all(broker: Broker, topic: str, producer: str, codec: str) -> None:
    create_topic(broker.bootstrap, topic)
    PRODUCERS[producer](broker.bootstrap, topic, RECORDS, codec)
    assert CONSUMERS["console"](broker.bootstrap, topic, len(RECORDS)) == RECORDS


@pytest.mark.parametrize("client", LIBRARIES)
def test_a_message_of_five_megabytes_passes_where_the_topic_allows_it(broker: Broker, topic: str, client: str) -> None:
    create_topic(broker.bootstrap, topic, config={"max.message.bytes": str(6 * 1024 * 1024)})
    large = [Sent(b"large", bytes(range(256)) * 20480)]
    PRODUCERS[client](broker.bootstrap, topic, large, "none")
    for consumer in LIBRARIES:
        assert CONSUMERS[consumer](broker.bootstrap, topic, 1) == large, consumer


def test_the_java_console_tools_pass_a_message_of_five_megabytes(broker: Broker, topic: str) -> None:
    create_topic(broker.bootstrap, topic, config={"max.message.bytes": str(6 * 1024 * 1024)})
    large = [Sent(b"large", b"0123456789abcdef" * 327680)]
    PRODUCERS["console"](broker.bootstrap, topic, large, "none")
    assert CONSUMERS["console"](broker.bootstrap, topic, 1) == large


@pytest.mark.parametrize("client", LIBRARIES)
def test_a_topic_comes_into_being_when_it_is_first_written_to(broker: Broker, topic: str, client: str) -> None:
    PRODUCERS[client](broker.bootstrap, topic, RECORDS[:3], "none")
    assert CONSUMERS[client](broker.bootstrap, topic, 3) == RECORDS[:3]
