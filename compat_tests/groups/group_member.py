"""A stock consumer in a group, as a process of its own that can be killed.

Its settings are its argument, in JSON. It prints events as lines of JSON: ["assigned", partitions], ["revoked",
partitions], ["lost", partitions], ["record", topic, partition, offset] and ["done", command]. It reads commands from
stdin: `commit`, `seek TOPIC PARTITION OFFSET`, `rewind`, `pause` and `resume`. At the end of stdin it closes its
consumer.
"""

import asyncio
import json
import queue
import sys
import threading
from collections.abc import Callable, Iterable
from typing import Any

import aiokafka
import aiokafka.coordinator.assignors.range
import aiokafka.coordinator.assignors.roundrobin
import aiokafka.coordinator.assignors.sticky.sticky_assignor
import confluent_kafka
import kafka
import kafka.coordinator.assignors.cooperative_sticky
import kafka.coordinator.assignors.range
import kafka.coordinator.assignors.roundrobin
import kafka.coordinator.assignors.sticky.sticky_assignor

Settings = dict[str, Any]
END = "end"

python: Any = kafka.coordinator.assignors
aio: Any = aiokafka.coordinator.assignors
librdkafka: Any = confluent_kafka
STRATEGIES_OF_KAFKA_PYTHON = {
    "range": python.range.RangePartitionAssignor,
    "roundrobin": python.roundrobin.RoundRobinPartitionAssignor,
    "sticky": python.sticky.sticky_assignor.StickyPartitionAssignor,
    "cooperative-sticky": python.cooperative_sticky.CooperativeStickyAssignor,
}
STRATEGIES_OF_AIOKAFKA = {
    "range": aio.range.RangePartitionAssignor,
    "roundrobin": aio.roundrobin.RoundRobinPartitionAssignor,
    "sticky": aio.sticky.sticky_assignor.StickyPartitionAssignor,
}


def tell(*event: Any) -> None:
    print(json.dumps(event), flush=True)


def tell_of(what: str, partitions: Iterable[Any]) -> None:
    tell(what, sorted((each.topic, each.partition) for each in partitions))


def commands() -> "queue.Queue[list[str]]":
    """Return a queue of the commands on stdin, with an empty one at its end."""
    said: queue.Queue[list[str]] = queue.Queue()

    def read() -> None:
        for line in sys.stdin:
            said.put(line.split())
        said.put([END])

    threading.Thread(target=read, daemon=True).start()
    return said


def obeying(said: "queue.Queue[list[str]]", actions: dict[str, Callable[..., Any]]) -> bool:
    """Carry out the queued commands; return whether to continue."""
    while not said.empty():
        name, *arguments = said.get()
        if name == END:
            return False
        actions[name](*arguments)
        tell("done", name)
    return True


def run_kafka_python(settings: Settings) -> None:
    class Listener(kafka.ConsumerRebalanceListener):  # type: ignore[misc]
        def on_partitions_assigned(self, assigned: Any) -> None:
            tell_of("assigned", assigned)

        def on_partitions_revoked(self, revoked: Any) -> None:
            tell_of("revoked", revoked)

        def on_partitions_lost(self, lost: Any) -> None:
            tell_of("lost", lost)

    consumer = kafka.KafkaConsumer(
        bootstrap_servers=settings["bootstrap"],
        group_id=settings["group"],
        group_instance_id=settings["instance"],
        client_id=settings["client_id"],
        partition_assignment_strategy=[STRATEGIES_OF_KAFKA_PYTHON[settings["strategy"]]],
        session_timeout_ms=settings["session_timeout_ms"],
        heartbeat_interval_ms=settings["heartbeat_interval_ms"],
        enable_auto_commit=settings["auto_commit"],
        auto_commit_interval_ms=settings["auto_commit_interval_ms"],
        auto_offset_reset=settings["reset"],
    )
    consumer.subscribe(settings["topics"], listener=Listener())
    actions: dict[str, Callable[..., Any]] = {
        "commit": consumer.commit,
        "seek": lambda topic, partition, offset: consumer.seek(
            kafka.TopicPartition(topic, int(partition)), int(offset)
        ),
        "rewind": consumer.seek_to_beginning,
        "pause": lambda: consumer.pause(*consumer.assignment()),
        "resume": lambda: consumer.resume(*consumer.paused()),
    }
    said = commands()
    while obeying(said, actions):
        for batch in consumer.poll(timeout_ms=100).values():
            for each in batch:
                tell("record", each.topic, each.partition, each.offset)
    consumer.close()


def run_confluent(settings: Settings) -> None:
    static = {} if settings["instance"] is None else {"group.instance.id": settings["instance"]}
    consumer = librdkafka.Consumer(
        {
            "bootstrap.servers": settings["bootstrap"],
            "group.id": settings["group"],
            "client.id": settings["client_id"],
            "partition.assignment.strategy": settings["strategy"],
            "session.timeout.ms": settings["session_timeout_ms"],
            "heartbeat.interval.ms": settings["heartbeat_interval_ms"],
            "enable.auto.commit": settings["auto_commit"],
            "auto.commit.interval.ms": settings["auto_commit_interval_ms"],
            "auto.offset.reset": {"none": "error"}.get(settings["reset"], settings["reset"]),
            **static,
        }
    )
    consumer.subscribe(
        settings["topics"],
        on_assign=lambda _, partitions: tell_of("assigned", partitions),
        on_revoke=lambda _, partitions: tell_of("revoked", partitions),
        on_lost=lambda _, partitions: tell_of("lost", partitions),
    )

    def rewind() -> None:
        for each in consumer.assignment():
            consumer.seek(librdkafka.TopicPartition(each.topic, each.partition, 0))

    actions: dict[str, Callable[..., Any]] = {
        "commit": lambda: consumer.commit(asynchronous=False),
        "seek": lambda topic, partition, offset: consumer.seek(
            librdkafka.TopicPartition(topic, int(partition), int(offset))
        ),
        "rewind": rewind,
        "pause": lambda: consumer.pause(consumer.assignment()),
        "resume": lambda: consumer.resume(consumer.assignment()),
    }
    said = commands()
    while obeying(said, actions):
        for each in consumer.consume(100, 0.1):
            if each.error():
                raise RuntimeError(each.error())
            tell("record", each.topic(), each.partition(), each.offset())
    consumer.close()


async def run_aiokafka(settings: Settings) -> None:
    class Listener(aiokafka.ConsumerRebalanceListener):  # type: ignore[misc]
        def on_partitions_assigned(self, assigned: Any) -> None:
            tell_of("assigned", assigned)

        def on_partitions_revoked(self, revoked: Any) -> None:
            tell_of("revoked", revoked)

    consumer = aiokafka.AIOKafkaConsumer(
        bootstrap_servers=settings["bootstrap"],
        group_id=settings["group"],
        group_instance_id=settings["instance"],
        client_id=settings["client_id"],
        partition_assignment_strategy=[STRATEGIES_OF_AIOKAFKA[settings["strategy"]]],
        session_timeout_ms=settings["session_timeout_ms"],
        heartbeat_interval_ms=settings["heartbeat_interval_ms"],
        enable_auto_commit=settings["auto_commit"],
        auto_commit_interval_ms=settings["auto_commit_interval_ms"],
        auto_offset_reset=settings["reset"],
    )
    consumer.subscribe(settings["topics"], listener=Listener())
    await consumer.start()
    actions: dict[str, Callable[..., Any]] = {
        "commit": consumer.commit,
        "seek": lambda topic, partition, offset: consumer.seek(
            aiokafka.TopicPartition(topic, int(partition)), int(offset)
        ),
        "rewind": consumer.seek_to_beginning,
        "pause": lambda: consumer.pause(*consumer.assignment()),
        "resume": lambda: consumer.resume(*consumer.paused()),
    }
    said = commands()
    while True:
        while not said.empty():
            name, *arguments = said.get()
            if name == END:
                await consumer.stop()
                return
            result = actions[name](*arguments)
            if result is not None:
                await result
            tell("done", name)
        for batch in (await consumer.getmany(timeout_ms=100)).values():
            for each in batch:
                tell("record", each.topic, each.partition, each.offset)


RUN: dict[str, Callable[[Settings], None]] = {
    "kafka-python": run_kafka_python,
    "confluent-kafka": run_confluent,
    "aiokafka": lambda settings: asyncio.run(run_aiokafka(settings)),
}

if __name__ == "__main__":
    given = json.loads(sys.argv[1])
    RUN[given["client"]](given)
