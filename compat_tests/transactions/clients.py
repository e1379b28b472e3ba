"""The stock clients with transactions, all with the same calls: three in this process, Java in a JVM.

A call that a broker refuses raises an exception; `kind_of` returns the client's name for the reason.
"""

import asyncio
import contextlib
import itertools
import threading
import time
from collections.abc import Callable, Coroutine, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import aiokafka
import confluent_kafka
import confluent_kafka.admin
import kafka

from compat_tests.support.java import JavaProgram
from compat_tests.transactions.calls import TIMEOUT_MS, Client, Consumer, Producer, Read

# Their types do not tell what they export.
python: Any = kafka
librdkafka: Any = confluent_kafka
rd_admin: Any = confluent_kafka.admin
aio: Any = aiokafka

PATIENCE_S = 60.0
# How long a broker keeps a Fetch, and a client a call, if there is nothing to read.
POLL_MS = 50
JOIN_MS = 1000
COMMITTED, UNCOMMITTED = "read_committed", "read_uncommitted"
SOURCE = Path(__file__).parent / "TransactionalClient.java"
JAVA_VERSIONS = ("3.9.2", "4.3.1", "4.4.0")
PYTHON = ("kafka-python", "confluent-kafka", "aiokafka")
CLIENTS = (*PYTHON, *(f"java {version}" for version in JAVA_VERSIONS))

_names = itertools.count()


@contextlib.contextmanager
def opened(name: str) -> Iterator[Client]:
    """Yield a client library by its name."""
    if name == "aiokafka":
        with contextlib.closing(_Aiokafka()) as made:
            yield made
    elif name == "kafka-python":
        yield _KafkaPython()
    elif name == "confluent-kafka":
        yield _Confluent()
    else:
        with JavaProgram(SOURCE, f"org.apache.kafka:kafka-clients:{name.partition(' ')[2]}") as program:
            yield _Java(program)


def kind_of(error: BaseException) -> str:
    """Return a client's name for an error."""
    if isinstance(error, librdkafka.KafkaException):
        return str(error.args[0].name())
    return error.kind if isinstance(error, _JavaError) else type(error).__name__


def end_offset(bootstrap: str, topic: str, isolation: str) -> int:
    """Return the offset behind the last record of partition 0 that such a reader may see."""
    level = {
        COMMITTED: librdkafka.IsolationLevel.READ_COMMITTED,
        UNCOMMITTED: librdkafka.IsolationLevel.READ_UNCOMMITTED,
    }
    admin = rd_admin.AdminClient({"bootstrap.servers": bootstrap, "log_level": 0})
    asked = {librdkafka.TopicPartition(topic, 0): rd_admin.OffsetSpec.latest()}
    (found,) = admin.list_offsets(asked, isolation_level=level[isolation]).values()
    return int(found.result(PATIENCE_S).offset)


def _until(end: int, position: Callable[[], int], step: Callable[[], Sequence[str]]) -> list[str]:
    """Return what the steps find until a reader's position is an offset."""
    found: list[str] = []
    deadline = time.monotonic() + PATIENCE_S
    while position() < end:
        assert time.monotonic() < deadline, (found, position(), end)
        found += step()
    return found


# kafka-python


class _KafkaPython:
    def producer(self, bootstrap: str, transactional_id: str, timeout_ms: int = TIMEOUT_MS) -> Producer:
        made = python.KafkaProducer(
            bootstrap_servers=bootstrap, transactional_id=transactional_id, transaction_timeout_ms=timeout_ms
        )
        made.init_transactions()
        return _KafkaPythonProducer(made)

    def consumer(self, bootstrap: str, group: str, topic: str) -> Consumer:
        return _KafkaPythonConsumer(self._consumer(bootstrap, COMMITTED, topic, group_id=group))

    def read(self, bootstrap: str, topic: str, isolation: str, end: int) -> list[str]:
        consumer = self._consumer(bootstrap, isolation, group_id=None)
        partition = python.TopicPartition(topic, 0)

        def step() -> list[str]:
            return [each.value.decode() for some in consumer.poll(POLL_MS).values() for each in some]

        with contextlib.closing(consumer):
            consumer.assign([partition])
            consumer.seek_to_beginning(partition)
            return _until(end, lambda: int(consumer.position(partition)), step)

    def committed(self, bootstrap: str, group: str, topic: str) -> int:
        with contextlib.closing(self._consumer(bootstrap, COMMITTED, group_id=group)) as consumer:
            return int(consumer.committed(python.TopicPartition(topic, 0)))

    @staticmethod
    def _consumer(bootstrap: str, isolation: str, *topics: str, **settings: Any) -> Any:
        return python.KafkaConsumer(
            *topics,
            bootstrap_servers=bootstrap,
            isolation_level=isolation,
            auto_offset_reset="earliest",
            enable_auto_commit=False,
            fetch_max_wait_ms=POLL_MS,
            **settings,
        )


class _KafkaPythonProducer:
    def __init__(self, producer: Any) -> None:
        self._producer = producer
        self.begin: Callable[[], None] = producer.begin_transaction
        self.commit: Callable[[], None] = producer.commit_transaction
        self.abort: Callable[[], None] = producer.abort_transaction

    def send(self, topic: str, value: str, partition: int = 0) -> None:
        self._producer.send(topic, value.encode(), partition=partition).get(PATIENCE_S)

    def send_offsets(self, consumer: Any, topic: str, offsets: Mapping[int, int]) -> None:
        found = {python.TopicPartition(topic, at): python.OffsetAndMetadata(offset) for at, offset in offsets.items()}
        self._producer.send_offsets_to_transaction(found, consumer.metadata())

    def close(self) -> None:
        self._producer.close(PATIENCE_S)


class _KafkaPythonConsumer:
    def __init__(self, consumer: Any) -> None:
        self._consumer = consumer
        self.metadata = consumer.group_metadata
        self.close = consumer.close

    def poll(self) -> list[Read]:
        # Where it has to join its group first, its short calls would begin that anew each time.
        found = self._consumer.poll(JOIN_MS).values()
        return [Read(each.partition, each.offset, each.value.decode()) for some in found for each in some]


# confluent-kafka


class _Confluent:
    def producer(self, bootstrap: str, transactional_id: str, timeout_ms: int = TIMEOUT_MS) -> Producer:
        settings = {"bootstrap.servers": bootstrap, "transactional.id": transactional_id, "log_level": 0}
        made = librdkafka.Producer({**settings, "transaction.timeout.ms": timeout_ms, "linger.ms": 0})
        made.init_transactions(PATIENCE_S)
        return _ConfluentProducer(made)

    def consumer(self, bootstrap: str, group: str, topic: str) -> Consumer:
        made = self._consumer(bootstrap, COMMITTED, group)
        made.subscribe([topic])
        return _ConfluentConsumer(made)

    def read(self, bootstrap: str, topic: str, isolation: str, end: int) -> list[str]:
        consumer = self._consumer(bootstrap, isolation, "by-assignment")
        partition = librdkafka.TopicPartition(topic, 0, 0)
        reached = 0

        def step() -> list[str]:
            nonlocal reached
            found = []
            for each in consumer.consume(100, POLL_MS / 1000):
                if each.error() is None:
                    found.append(each.value().decode())
                else:
                    # The end of the partition, as such a reader sees it.
                    assert each.error().code() == librdkafka.KafkaError._PARTITION_EOF, each.error()
                    reached = each.offset()
            return found

        with contextlib.closing(consumer):
            consumer.assign([partition])
            return _until(end, lambda: reached, step)

    def committed(self, bootstrap: str, group: str, topic: str) -> int:
        with contextlib.closing(self._consumer(bootstrap, COMMITTED, group)) as consumer:
            (found,) = consumer.committed([librdkafka.TopicPartition(topic, 0)], PATIENCE_S)
            return int(found.offset)

    @staticmethod
    def _consumer(bootstrap: str, isolation: str, group: str) -> Any:
        return librdkafka.Consumer(
            {
                "bootstrap.servers": bootstrap,
                "group.id": group,
                "isolation.level": isolation,
                "auto.offset.reset": "earliest",
                "enable.auto.commit": False,
                "fetch.wait.max.ms": POLL_MS,
                "enable.partition.eof": group == "by-assignment",
                "log_level": 0,
            }
        )


class _ConfluentProducer:
    def __init__(self, producer: Any) -> None:
        self._producer = producer
        self.begin: Callable[[], None] = producer.begin_transaction

    def send(self, topic: str, value: str, partition: int = 0) -> None:
        errors: list[Any] = []
        self._producer.produce(
            topic, value.encode(), partition=partition, on_delivery=lambda error, _: errors.append(error)
        )
        assert self._producer.flush(PATIENCE_S) == 0
        if errors != [None]:
            raise librdkafka.KafkaException(*errors)

    def send_offsets(self, consumer: Any, topic: str, offsets: Mapping[int, int]) -> None:
        found = [librdkafka.TopicPartition(topic, at, offset) for at, offset in offsets.items()]
        self._producer.send_offsets_to_transaction(found, consumer.metadata(), PATIENCE_S)

    def commit(self) -> None:
        self._producer.commit_transaction(PATIENCE_S)

    def abort(self) -> None:
        self._producer.abort_transaction(PATIENCE_S)

    def close(self) -> None:
        self._producer.purge()
        # A producer that was fenced raises its error once more.
        with contextlib.suppress(librdkafka.KafkaException):
            self._producer.flush(PATIENCE_S)


class _ConfluentConsumer:
    def __init__(self, consumer: Any) -> None:
        self._consumer = consumer
        self.metadata = consumer.consumer_group_metadata
        self.close = consumer.close

    def poll(self) -> list[Read]:
        found = self._consumer.consume(100, POLL_MS / 1000)
        assert not any(each.error() for each in found)
        return [Read(each.partition(), each.offset(), each.value().decode()) for each in found]


# aiokafka


class _Aiokafka:
    def __init__(self) -> None:
        # It heartbeats and sends in tasks of a loop, which must run between the calls, too.
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever, daemon=True)
        self._thread.start()

    def close(self) -> None:
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join(PATIENCE_S)
        self._loop.close()

    def _run(self, work: Coroutine[Any, Any, Any]) -> Any:
        return asyncio.run_coroutine_threadsafe(work, self._loop).result(PATIENCE_S)

    def producer(self, bootstrap: str, transactional_id: str, timeout_ms: int = TIMEOUT_MS) -> Producer:
        async def start() -> Any:
            made = aio.AIOKafkaProducer(
                bootstrap_servers=bootstrap, transactional_id=transactional_id, transaction_timeout_ms=timeout_ms
            )
            await made.start()
            return made

        return _AiokafkaProducer(self._run, self._run(start()))

    def consumer(self, bootstrap: str, group: str, topic: str) -> Consumer:
        return _AiokafkaConsumer(
            self._run, self._run(self._consumer(bootstrap, COMMITTED, topic, group_id=group)), group
        )

    def read(self, bootstrap: str, topic: str, isolation: str, end: int) -> list[str]:
        async def read() -> list[str]:
            found: list[str] = []
            consumer = await self._consumer(bootstrap, isolation, group_id=None)
            partition = aio.TopicPartition(topic, 0)
            try:
                consumer.assign([partition])
                await consumer.seek_to_beginning(partition)
                while await consumer.position(partition) < end:
                    for some in (await consumer.getmany(timeout_ms=POLL_MS)).values():
                        found += [each.value.decode() for each in some]
            finally:
                await consumer.stop()
            return found

        return [str(each) for each in self._run(read())]

    def committed(self, bootstrap: str, group: str, topic: str) -> int:
        async def committed() -> Any:
            consumer = await self._consumer(bootstrap, COMMITTED, group_id=group)
            try:
                return await consumer.committed(aio.TopicPartition(topic, 0))
            finally:
                await consumer.stop()

        return int(self._run(committed()))

    @staticmethod
    async def _consumer(bootstrap: str, isolation: str, *topics: str, **settings: Any) -> Any:
        made = aio.AIOKafkaConsumer(
            *topics,
            bootstrap_servers=bootstrap,
            isolation_level=isolation,
            auto_offset_reset="earliest",
            enable_auto_commit=False,
            fetch_max_wait_ms=POLL_MS,
            **settings,
        )
        await made.start()
        return made


class _AiokafkaProducer:
    def __init__(self, run: Callable[[Coroutine[Any, Any, Any]], Any], producer: Any) -> None:
        self._run = run
        self._producer = producer

    def begin(self) -> None:
        self._run(self._producer.begin_transaction())

    def send(self, topic: str, value: str, partition: int = 0) -> None:
        self._run(self._producer.send_and_wait(topic, value.encode(), partition=partition))

    def send_offsets(self, consumer: Any, topic: str, offsets: Mapping[int, int]) -> None:
        found = {aio.TopicPartition(topic, at): offset for at, offset in offsets.items()}
        self._run(self._producer.send_offsets_to_transaction(found, consumer.group))

    def commit(self) -> None:
        self._run(self._producer.commit_transaction())

    def abort(self) -> None:
        self._run(self._producer.abort_transaction())

    def close(self) -> None:
        # A producer that was fenced raises its error once more.
        with contextlib.suppress(aio.errors.KafkaError):
            self._run(self._producer.stop())


class _AiokafkaConsumer:
    def __init__(self, run: Callable[[Coroutine[Any, Any, Any]], Any], consumer: Any, group: str) -> None:
        self._run = run
        self._consumer = consumer
        self.group = group

    def poll(self) -> list[Read]:
        found = self._run(self._consumer.getmany(timeout_ms=POLL_MS)).values()
        return [Read(each.partition, each.offset, each.value.decode()) for some in found for each in some]

    def close(self) -> None:
        self._run(self._consumer.stop())


# Java


class _JavaError(Exception):
    def __init__(self, kind: str, text: str) -> None:
        super().__init__(text)
        self.kind = kind


class _Java:
    def __init__(self, program: JavaProgram) -> None:
        self._program = program

    def ask(self, *words: object) -> list[str]:
        what, *results = self._program.answer("\t".join(map(str, words))).split("\t")
        if what == "error":
            raise _JavaError(*results)
        return results

    def producer(self, bootstrap: str, transactional_id: str, timeout_ms: int = TIMEOUT_MS) -> Producer:
        name = f"producer-{next(_names)}"
        self.ask("producer", name, bootstrap, transactional_id, timeout_ms)
        return _JavaProducer(self, name)

    def consumer(self, bootstrap: str, group: str, topic: str) -> Consumer:
        name = f"consumer-{next(_names)}"
        self.ask("consumer", name, bootstrap, group, topic)
        return _JavaConsumer(self, name)

    def read(self, bootstrap: str, topic: str, isolation: str, end: int) -> list[str]:
        return self.ask("read", bootstrap, topic, isolation, end)

    def committed(self, bootstrap: str, group: str, topic: str) -> int:
        (offset,) = self.ask("committed", bootstrap, group, topic)
        return int(offset)


class _JavaProducer:
    def __init__(self, java: _Java, name: str) -> None:
        self._java = java
        self._name = name

    def begin(self) -> None:
        self._java.ask("begin", self._name)

    def send(self, topic: str, value: str, partition: int = 0) -> None:
        self._java.ask("send", self._name, topic, partition, value)

    def send_offsets(self, consumer: Any, topic: str, offsets: Mapping[int, int]) -> None:
        pairs = itertools.chain.from_iterable(offsets.items())
        self._java.ask("offsets", self._name, consumer.name, topic, *pairs)

    def commit(self) -> None:
        self._java.ask("commit", self._name)

    def abort(self) -> None:
        self._java.ask("abort", self._name)

    def close(self) -> None:
        self._java.ask("close", self._name)


class _JavaConsumer:
    def __init__(self, java: _Java, name: str) -> None:
        self._java = java
        self.name = name

    def poll(self) -> list[Read]:
        found = self._java.ask("poll", self.name)
        return [Read(int(found[at]), int(found[at + 1]), found[at + 2]) for at in range(0, len(found), 3)]

    def close(self) -> None:
        self._java.ask("leave", self.name)
