"""A client's view of a cluster: brokers, leaders and coordinators, and requests to the broker that can answer them.

Owns the connections, the metadata and the retries. Must not know what a request is for.
Counterparts in Kafka: AdminMetadataManager, AdminApiDriver, Metadata.
"""

from collections.abc import AsyncIterator, Awaitable, Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import asynccontextmanager
from typing import Any, Final, NamedTuple, TypeVar, cast

import trio

from ottla.client import errors
from ottla.client.config import ClientConfig
from ottla.client.connection import Connection, connect
from ottla.client.security import read_security
from ottla.wire.config_def import ConfigError
from ottla.wire.errors import ErrorCode, KafkaError
from ottla.wire.messages.find_coordinator import FindCoordinatorRequest, FindCoordinatorResponse
from ottla.wire.messages.metadata import (
    MetadataRequest,
    MetadataRequestTopic,
    MetadataResponse,
    MetadataResponsePartition,
    MetadataResponseTopic,
)
from ottla.wire.schema import Request, Response, Struct
from ottla.wire.types import TopicPartition

R = TypeVar("R", bound=Response)
T = TypeVar("T")
GROUP: Final = 0
TRANSACTION: Final = 1
SHARE: Final = 2
_KEYS_FROM: Final = 4
"""The first version of FindCoordinator with several keys."""
ASK_ELSEWHERE: Final = frozenset(
    {
        ErrorCode.NOT_CONTROLLER,
        ErrorCode.NOT_COORDINATOR,
        ErrorCode.NOT_LEADER_OR_FOLLOWER,
        ErrorCode.FENCED_LEADER_EPOCH,
        ErrorCode.UNKNOWN_LEADER_EPOCH,
        ErrorCode.LEADER_NOT_AVAILABLE,
        ErrorCode.REPLICA_NOT_AVAILABLE,
        ErrorCode.KAFKA_STORAGE_ERROR,
        ErrorCode.COORDINATOR_NOT_AVAILABLE,
        ErrorCode.COORDINATOR_LOAD_IN_PROGRESS,
        ErrorCode.LISTENER_NOT_FOUND,
    }
)
"""Errors of a broker that did nothing, because the client's metadata is old or the broker is not ready."""


class Node(NamedTuple):
    """A broker, with the address of the listener that this client uses."""

    id: int
    host: str
    port: int
    rack: str | None = None

    def __str__(self) -> str:
        return f"{self.host}:{self.port}"


class Coordinator(NamedTuple):
    """The coordinator of a group (`GROUP`), a transactional id (`TRANSACTION`) or a share partition (`SHARE`)."""

    kind: int
    key: str


class _AnyBroker:
    def __repr__(self) -> str:
        return "any broker"


class _Controller:
    def __repr__(self) -> str:
        return "the controller"


ANY: Final = _AnyBroker()
CONTROLLER: Final = _Controller()
Target = _AnyBroker | _Controller | Coordinator | int
"""The receiver of a request: `ANY`, `CONTROLLER`, a coordinator, or a broker by its id."""


class Client:
    """A cluster's client; made by `open_client`."""

    def __init__(self, config: ClientConfig, nursery: trio.Nursery, *, is_patient: bool = False) -> None:
        """`is_patient`: wait for a cluster that cannot be reached yet, as Kafka's clients do."""
        self.config = config
        self.is_patient = is_patient
        self._security = read_security(config)
        self.nodes: dict[int, Node] = {}
        self.controller_id = -1
        self.cluster_id: str | None = None
        self._nursery = nursery
        self._bootstrap = [_address(each) for each in config["bootstrap.servers"]]
        self._open: dict[tuple[str, int], Connection] = {}
        self._opening: dict[tuple[str, int], trio.Lock] = {}
        self._coordinators: dict[Coordinator, int] = {}

    # Connections

    async def connection(self, target: Target = ANY) -> Connection:
        """Return an open connection to a broker. ClientError if none can be made."""
        if isinstance(target, _AnyBroker):
            return await self._to_anybody()
        node = await self._node(target)
        try:
            return await self._to(node.host, node.port)
        except errors.ConnectionFailedError as error:
            raise errors.advertised(str(node), ",".join(self.config["bootstrap.servers"]), error) from error

    async def _to(self, host: str, port: int) -> Connection:
        async with self._opening.setdefault((host, port), trio.Lock()):
            found = self._open.get((host, port))
            if found is None or found.is_closed:
                found = self._open[host, port] = await self._connect(host, port)
            return found

    async def _connect(self, host: str, port: int) -> Connection:
        try:
            with trio.fail_after(self.config.seconds("request.timeout.ms")):
                connection = await connect(host, port, self.config, self._security)
        except trio.TooSlowError:
            raise errors.ConnectionFailedError(
                f"{host}:{port}: the broker does not answer",
                "Is security.protocol the listener's?",
            ) from None
        self._nursery.start_soon(connection.run)
        return connection

    async def _to_anybody(self) -> Connection:
        for found in self._open.values():
            if not found.is_closed:
                return found
        known = [(each.host, each.port) for each in self.nodes.values()]
        failed: list[errors.ClientError] = []
        for host, port in dict.fromkeys([*known, *self._bootstrap]):
            try:
                return await self._to(host, port)
            except errors.ConnectionFailedError as error:
                failed.append(error)
        if len(failed) == 1:
            raise failed[0]
        raise errors.ConnectionFailedError("; ".join(map(str, failed)), failed[-1].hint)

    async def dedicated(self, target: Target) -> Connection:
        """Return a connection for this caller alone, for requests that wait long. It ends with the client."""
        node = await self._node(target)
        return await self._connect(node.host, node.port)

    async def _node(self, target: Target) -> Node:
        if isinstance(target, Coordinator):
            target = await self._coordinator(target)
        if isinstance(target, _AnyBroker):
            connection = await self._to_anybody()
            host, _, port = connection.where.rpartition(":")
            return Node(-1, host, int(port))
        if isinstance(target, _Controller):
            if self.controller_id not in self.nodes:
                await self.metadata(())
            if self.controller_id not in self.nodes:
                raise KafkaError(ErrorCode.NOT_CONTROLLER, "the cluster has no controller")
            target = self.controller_id
        if target not in self.nodes:
            await self.metadata(())
        if target not in self.nodes:
            raise KafkaError(ErrorCode.BROKER_NOT_AVAILABLE, f"broker {target} is not in the cluster")
        return self.nodes[target]

    async def _coordinator(self, wanted: Coordinator) -> int:
        if wanted not in self._coordinators:
            await self.find_coordinators(wanted.kind, [wanted.key])
        return self._coordinators[wanted]

    async def find_coordinators(self, kind: int, keys: Sequence[str]) -> dict[int, list[str]]:
        """Return the keys by the id of their coordinator. KafkaError if a key has no coordinator."""
        left = [key for key in keys if Coordinator(kind, key) not in self._coordinators]
        connection = await self._to_anybody()
        if connection.version_of(FindCoordinatorRequest) < _KEYS_FROM:
            for key in left:
                await self._find(FindCoordinatorRequest(key=key, key_type=kind), [key], kind)
        elif left:
            await self._find(FindCoordinatorRequest(key_type=kind, coordinator_keys=left), left, kind)
        found: dict[int, list[str]] = {}
        for key in keys:
            found.setdefault(self._coordinators[Coordinator(kind, key)], []).append(key)
        return found

    async def _find(self, request: FindCoordinatorRequest, keys: Sequence[str], kind: int) -> None:
        answer = await self.ask(request, ANY, FindCoordinatorResponse)
        if not answer.coordinators:
            check(answer.error_code, answer.error_message)
            self._coordinators[Coordinator(kind, keys[0])] = answer.node_id
            self.nodes.setdefault(answer.node_id, Node(answer.node_id, answer.host, answer.port))
        for each in answer.coordinators:
            check(each.error_code, each.error_message or f"the coordinator of {each.key}")
            self._coordinators[Coordinator(kind, each.key)] = each.node_id
            self.nodes.setdefault(each.node_id, Node(each.node_id, each.host, each.port))

    # Requests

    async def ask(
        self,
        request: Request,
        target: Target,
        response_type: type[R],
        *,
        lowest: int = 0,
        highest: int = 0x7FFF,
        timeout_seconds: float | None = None,
    ) -> R:
        """Return the response, in the newest version from `lowest` to `highest` that both sides know.

        While no broker can be reached, or the response has an error of `ASK_ELSEWHERE`, the request is sent again
        until `default.api.timeout.ms` is over. The caller checks the response for other errors. `timeout_seconds` is
        the time that the broker itself may take.
        """

        async def attempt() -> R:
            connection = await self.connection(target)
            version = connection.version_of(type(request), lowest, highest)
            response = await self._in_time(connection, request, version, timeout_seconds)
            assert isinstance(response, response_type)
            refusal = next((code for code in error_codes(response) if code in ASK_ELSEWHERE), None)
            if refusal is not None and not isinstance(target, int):
                raise _AskAgain(response, refusal)
            return response

        try:
            return await self.until_it_works(attempt, target)
        except _AskAgain as refused:
            # The time is over: the caller gets the response with its error.
            return cast(R, refused.response)

    async def _in_time(
        self, connection: Connection, request: Request, version: int, timeout_seconds: float | None
    ) -> Response:
        seconds = self.config.seconds("request.timeout.ms") + (timeout_seconds or 0.0)
        try:
            with trio.fail_after(seconds):
                return await connection.send(request, version)
        except trio.TooSlowError:
            await connection.close()
            raise errors.ConnectionFailedError(
                f"{connection.where}: no response to {request.api_key.name} within {seconds:g} s"
            ) from None

    async def until_it_works(self, attempt: Callable[[], Awaitable[T]], target: Target = ANY) -> T:
        """Call `attempt` until it returns, with growing pauses, for `default.api.timeout.ms` at most."""
        last: Exception | None = None
        with trio.move_on_after(self.config.seconds("default.api.timeout.ms")):
            for pause in self._pauses():
                try:
                    return await attempt()
                except (errors.AuthenticationError, errors.UnsupportedRequestError, ConfigError):
                    raise
                except (errors.ClientError, KafkaError, _AskAgain) as error:
                    if isinstance(error, KafkaError) and error.code not in ASK_ELSEWHERE:
                        raise
                    last = error
                    if isinstance(error, errors.ConnectionFailedError) and not (self.nodes or self.is_patient):
                        raise  # no broker has answered yet: the address may be wrong
                self.forget(target)
                await trio.sleep(pause)
        if last is not None:
            raise last
        raise errors.OperationTimedOutError(
            f"{target} did not answer within {self.config.seconds('default.api.timeout.ms'):g} s"
        )

    def _pauses(self) -> Iterator[float]:
        pause = self.config.seconds("retry.backoff.ms")
        while True:
            yield pause
            pause = min(2 * pause, self.config.seconds("retry.backoff.max.ms"))

    def forget(self, target: Target) -> None:
        """Forget a coordinator or the controller: the next request looks it up."""
        if isinstance(target, Coordinator):
            self._coordinators.pop(target, None)
        elif isinstance(target, _Controller):
            self.controller_id = -1

    # Metadata

    async def metadata(self, topics: Iterable[str] | None, *, create: bool = False) -> MetadataResponse:
        """Return the brokers and some topics; all topics for None. The caller checks the error code of each topic."""
        wanted = None if topics is None else [MetadataRequestTopic(name=name) for name in topics]
        request = MetadataRequest(topics=wanted, allow_auto_topic_creation=create)

        async def attempt() -> MetadataResponse:
            connection = await self.connection(ANY)
            version = connection.version_of(MetadataRequest, 1)
            response = await self._in_time(connection, request, version, None)
            assert isinstance(response, MetadataResponse)
            return response

        response = await self.until_it_works(attempt)
        self.nodes = {each.node_id: Node(each.node_id, each.host, each.port, each.rack) for each in response.brokers}
        self.controller_id = response.controller_id
        self.cluster_id = response.cluster_id
        return response

    async def topics(self, names: Iterable[str] | None = None) -> dict[str, MetadataResponseTopic]:
        """Return topics by name; all of them for None. KafkaError for the first topic that cannot be described."""
        found = {}
        for topic in (await self.metadata(names)).topics:
            check(topic.error_code, topic.name)
            assert topic.name is not None
            found[topic.name] = topic
        return found

    async def ask_leaders(
        self,
        partitions: Iterable[TopicPartition],
        exchange: Callable[[int, Sequence[TopicPartition]], Awaitable[Mapping[TopicPartition, T | KafkaError]]],
    ) -> dict[TopicPartition, T | KafkaError]:
        """Return a result for each partition: one call for each leader, and more calls when leaders change.

        `exchange(broker_id, partitions)` sends one request; the requests to several brokers run at the same time.
        """
        results: dict[TopicPartition, T | KafkaError] = {}
        left = list(dict.fromkeys(partitions))

        async def ask_one(broker_id: int, mine: Sequence[TopicPartition]) -> None:
            try:
                results.update(await exchange(broker_id, mine))
            except (errors.ConnectionFailedError, KafkaError) as error:
                code = ErrorCode.NOT_LEADER_OR_FOLLOWER if isinstance(error, errors.ClientError) else error.code
                results.update(dict.fromkeys(mine, KafkaError(code, str(error))))

        async def attempt() -> None:
            by_leader: dict[int, list[TopicPartition]] = {}
            leaders = await self.leaders(left)
            for partition in left:
                leader = leaders[partition]
                if isinstance(leader, KafkaError):
                    results[partition] = leader
                else:
                    by_leader.setdefault(leader, []).append(partition)
            async with trio.open_nursery() as nursery:
                for broker_id, mine in by_leader.items():
                    nursery.start_soon(ask_one, broker_id, mine)
            left[:] = [each for each in left if _is_passing(results.get(each))]
            if left:
                raise errors.ClientError("leaders are moving")

        try:
            await self.until_it_works(attempt)
        except errors.ClientError:
            if not all(each in results for each in left):
                raise
        return results

    async def leaders(self, partitions: Sequence[TopicPartition]) -> dict[TopicPartition, int | KafkaError]:
        """Return the leader of each partition, or the error for a partition without one."""
        known = await self.metadata(dict.fromkeys(each.topic for each in partitions))
        topics = {topic.name: topic for topic in known.topics}
        return {each: _leader(topics.get(each.topic), each.partition) for each in partitions}


class _AskAgain(Exception):  # noqa: N818
    """A response with an error of `ASK_ELSEWHERE`."""

    def __init__(self, response: Response, code: int) -> None:
        super().__init__(str(code))
        self.response = response


def _is_passing(result: Any) -> bool:
    return result is None or (isinstance(result, KafkaError) and result.code in ASK_ELSEWHERE)


def _leader(topic: MetadataResponseTopic | None, index: int) -> int | KafkaError:
    if topic is None:
        return KafkaError(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, "")
    if topic.error_code != ErrorCode.NONE:
        return kafka_error(topic.error_code, f"topic {topic.name}")
    partition = find_partition(topic, index)
    if partition is None:
        return KafkaError(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, f"topic {topic.name} has no partition {index}")
    if partition.leader_id < 0:
        return KafkaError(ErrorCode.LEADER_NOT_AVAILABLE, f"partition {topic.name}-{index} has no leader")
    return partition.leader_id


def find_partition(topic: MetadataResponseTopic, index: int) -> MetadataResponsePartition | None:
    """Return a partition of a topic by its number."""
    return next((each for each in topic.partitions if each.partition_index == index), None)


def check(error_code: int, detail: str | None = None) -> None:
    """Raise KafkaError unless the code is NONE."""
    if error_code != ErrorCode.NONE:
        raise kafka_error(error_code, detail)


def kafka_error(error_code: int, detail: str | None = None) -> KafkaError:
    """Return the error for a code; for a code of a later Kafka, UNKNOWN_SERVER_ERROR with the number in its text."""
    try:
        return KafkaError(ErrorCode(error_code), detail or "")
    except ValueError:
        return KafkaError(ErrorCode.UNKNOWN_SERVER_ERROR, f"error {error_code}: {detail or ''}")


def error_codes(message: Struct) -> Iterator[int]:
    """Yield all error codes in a response, the top-level one first."""
    for name in message._defaults:
        value = getattr(message, name)
        if name == "error_code":
            yield value
        elif isinstance(value, Struct):
            yield from error_codes(value)
        elif isinstance(value, list | tuple) and value and isinstance(value[0], Struct):
            for each in value:
                yield from error_codes(each)


def _address(text: str) -> tuple[str, int]:
    host, colon, port = text.strip().rpartition(":")
    host = host.removeprefix("[").removesuffix("]")
    if not colon or not host or not port.isdigit() or not 0 < int(port) < 65536:
        raise ConfigError(f"bootstrap.servers: {text!r} is not HOST:PORT")
    return host, int(port)


@asynccontextmanager
async def open_client(config: ClientConfig, *, is_patient: bool = False) -> AsyncIterator[Client]:
    """Yield a client; its connections end with the block."""
    failed: Exception | None = None
    async with trio.open_nursery() as nursery:
        try:
            yield Client(config, nursery, is_patient=is_patient)
        except Exception as error:
            # Raised after the nursery, because the nursery would wrap it in a group.
            failed = error
        nursery.cancel_scope.cancel()
    if failed is not None:
        raise failed
