"""kafka-groups, which Kafka 3.9 lacks: classic groups on all brokers, share and streams groups on Kafka."""

import confluent_kafka

from compat_tests.groups import newer_members
from compat_tests.support.brokers import ApacheKafka, Broker
from compat_tests.support.clients import create_topic
from compat_tests.support.tools import Runs

RELEASES = ("4.3",)
SETTINGS = {ApacheKafka.name: newer_members.SETTINGS}
COMMANDS = {
    "groups: groups of every type are listed": """
        groups --list
        groups --list --consumer
        groups --list --share
        groups --list --streams
        groups --list --group-type classic
        groups --list --group-type Share
        groups --list --group-type classic --protocol consumer
        groups --list --protocol share
        groups --list --protocol bogus
        groups --command-config hasty.properties --list
    """,
    "groups: wrong usage is refused": """
        groups
        groups --help
        groups --version
        groups --list --group-type bogus
        groups --list --share --streams
        groups --list --consumer --protocol consumer
        groups --frob
        groups --group-type share
        groups --command-config none.properties --list
        groups --bootstrap-server 127.0.0.1:1 --command-config hasty.properties --list
    """,
}


def prepare(tools: Runs, broker: Broker) -> None:
    """Create groups: some that only commit, and one of each newer type if the broker supports it."""
    create_topic(broker.bootstrap, "read", 1, {})
    for group in ("simple", "another-group-with-a-long-name"):
        consumer = confluent_kafka.Consumer({"bootstrap.servers": broker.bootstrap, "group.id": group})
        consumer.commit(offsets=[confluent_kafka.TopicPartition("read", 0, 0)], asynchronous=False)
        consumer.close()
    if isinstance(broker, ApacheKafka):
        newer_members.join_share_group(broker.bootstrap, "shared", "member-1", ["read"])
        newer_members.join_streams_group(broker.bootstrap, "streamed", "member-1", "read", [0])
