"""The controller of one broker sends requests to others over real sockets."""

from collections.abc import Callable
from contextlib import suppress
from functools import partial
from pathlib import Path
from typing import Any

import pytest
import trio

from ottla.broker.bindings import with_api_versions
from ottla.broker.controller.broker_queues import Peer, RemotePeer
from ottla.broker.controller.request_batch import ControlRequest
from ottla.broker.handlers import leader_and_isr, stop_replica, update_metadata
from ottla.broker.net.server import Server, listen
from ottla.broker.net.session import RequestContext
from ottla.broker.requests.dispatch import build_apis
from ottla.broker.requests.large_requests import LargeRequests
from ottla.wire.errors import ErrorCode
from ottla.wire.messages.leader_and_isr import LeaderAndIsrRequest, LeaderAndIsrResponse
from ottla.wire.messages.stop_replica import StopReplicaRequest
from ottla.wire.messages.update_metadata import UpdateMetadataRequest
from ottla.zk.bootstrap import update_registration
from ottla.zk.znodes import BrokerInfo, Endpoint
from tests.broker.controller.cluster import (
    LONG_MS,
    NOW_MS,
    Broker,
    Cluster,
    assigned_topic,
    running,
    settle,
    topic,
    wait_for,
)
from tests.zk.stores import inline

ERROR_RESPONSES: dict[type[ControlRequest], Callable[..., Any]] = {
    LeaderAndIsrRequest: leader_and_isr.error_response,
    StopReplicaRequest: stop_replica.error_response,
    UpdateMetadataRequest: update_metadata.error_response,
}


class NetworkedBroker(Broker):
    """A broker with a socket; `versions` are those of the requests that it got."""

    def __init__(self, cluster: Cluster, broker_id: int, nursery: trio.Nursery) -> None:
        super().__init__(cluster, broker_id, nursery)
        self.versions: set[tuple[int, int]] = set()
        self._apis = build_apis(
            with_api_versions(
                {kind.api_key: (self._hear(handler), ERROR_RESPONSES[kind]) for kind, handler in self.bound().items()}
            ),
            large_requests=LargeRequests(inline, nursery.start_soon),
        )
        self.serve()

    def serve(self) -> None:
        """Serve on a new socket."""
        self.server = Server(
            self._apis.dispatch, self.cluster.clock, inline, self.parts.turn, max_frame=1 << 24, idle_seconds=600
        )
        self._socket = listen("127.0.0.1", 0, 50)
        self._nursery.start_soon(self.server.run, [("PLAINTEXT", self._socket)])

    @property
    def endpoint(self) -> Endpoint:
        return Endpoint("PLAINTEXT", *self._socket.getsockname()[:2])

    def peer_of(self, broker_id: int) -> Peer:
        if broker_id == self.broker_id:
            return self.peer
        return RemotePeer(partial(self.controller.address, broker_id), inline, self.config, self.broker_id)

    def _tell(self, handler: Callable[..., Any], version: int) -> Callable[[ControlRequest], Any]:
        return lambda request: handler(request, RequestContext(request.api_key, version))

    def _hear(self, handler: Callable[..., Any]) -> Callable[..., Any]:
        def handle(request: ControlRequest, context: RequestContext) -> Any:
            assert context.client_id == "0"
            self.told.append(request)
            self.versions.add((context.api_key, context.api_version))
            return handler(request, context)

        return handle


class Broken(NetworkedBroker):
    """A cluster in which the disk of broker 1 has failed."""

    def bound(self) -> dict[type[ControlRequest], Callable[..., Any]]:
        bound = super().bound()
        if self.broker_id == 1:

            def refuse(request: LeaderAndIsrRequest, context: RequestContext) -> LeaderAndIsrResponse:
                response = leader_and_isr.error_response(request, context.api_version, ErrorCode.KAFKA_STORAGE_ERROR)
                response.error_code = ErrorCode.NONE
                return response

            bound[LeaderAndIsrRequest] = refuse
        return bound


async def create(broker: Broker, *topics: Any) -> None:
    with trio.fail_after(120):
        outcomes = await wait_for(broker.controller.create_topics(topics, LONG_MS, validate_only=False))
    assert {outcome.error for outcome in outcomes.values()} == {None}


async def until(condition: Callable[[], Any]) -> None:
    with trio.fail_after(120):
        while not condition():
            await settle()


SPOKEN = {"2.8-IV0": (4, 3, 6), "2.8": (5, 3, 7), "3.2": (6, 3, 7), "3.9": (7, 4, 8)}


@pytest.mark.parametrize("protocol", SPOKEN)
async def test_topics_come_and_go_on_other_brokers_in_every_protocol_version(protocol: str, tmp_path: Path) -> None:
    configs: dict[str, Any] = {"inter_broker_protocol_version": protocol}
    async with running(tmp_path, 0, 1, 2, kind=NetworkedBroker, **configs) as cluster:
        first, other = cluster.brokers[0], cluster.brokers[1]
        assert first.controller.is_active
        await create(first, assigned_topic("t", (1, 0), (2, 1)))
        hosts = ((0, 0), (1, 0), (1, 1), (2, 1))
        await until(lambda: all(("t", index) in cluster.brokers[each].replicas.partitions for each, index in hosts))
        assert other.replicas.partitions["t", 0].is_leader
        assert not other.replicas.partitions["t", 1].is_leader
        assert first.replicas.partitions["t", 0].leader_epoch == 0
        await until(lambda: other.metadata.contains("t", 1))
        assert set(other.metadata.brokers) == {0, 1, 2}
        has_ids = protocol != "2.8-IV0"
        known = {each.replicas.partitions["t", 1].log.topic_id for each in (other, cluster.brokers[2])}
        assert (known == {None}) is not has_ids
        with trio.fail_after(120):
            await wait_for(first.controller.delete_topics(["t"], LONG_MS))
        await until(lambda: not other.metadata.contains("t") and not other.replicas.partitions)
        assert isinstance(other, NetworkedBroker)
        assert other.versions == set(zip((4, 5, 6), SPOKEN[protocol], strict=True))


async def test_many_partitions_are_sent_in_one_request(tmp_path: Path) -> None:
    async with running(tmp_path, 0, 1, kind=NetworkedBroker) as cluster:
        other = cluster.brokers[1]
        await create(cluster.brokers[0], topic("t", 2000, 2), topic("u", 10, 2))
        await until(lambda: len(other.replicas.partitions) == 2010 and len(other.metadata.partitions("t")) == 2000)
        assert sum(each.is_leader for each in other.replicas.partitions.values()) == 1005


@pytest.mark.parametrize("protocol", ["2.8-IV0", "3.9"])
async def test_another_broker_leads_if_the_first_replica_is_offline(protocol: str, tmp_path: Path) -> None:
    configs: dict[str, Any] = {"inter_broker_protocol_version": protocol}
    async with running(tmp_path, 0, 1, kind=Broken, **configs) as cluster:
        first = cluster.brokers[0]
        first.controller.create_topics([assigned_topic("t", (1, 0))], LONG_MS, validate_only=False)
        await until(lambda: ("t", 0) in first.replicas.partitions and first.replicas.partitions["t", 0].is_leader)


async def test_a_broker_that_restarts_at_another_address_gets_its_requests_there(tmp_path: Path) -> None:
    async with running(tmp_path, 0, 1, kind=NetworkedBroker) as cluster:
        first, other = cluster.brokers[0], cluster.brokers[1]
        assert isinstance(other, NetworkedBroker)
        await create(first, topic("t", 2, 2))
        with trio.fail_after(120):
            await other.server.stop(0)
        reply = first.controller.create_topics([assigned_topic("late", (1,))], LONG_MS, validate_only=False)
        await until(lambda: first.metadata.contains("late"))
        assert ("late", 0) not in other.replicas.partitions
        other.serve()
        await update_registration(other.session, BrokerInfo(1, (other.endpoint,)), NOW_MS)
        await until(lambda: ("late", 0) in other.replicas.partitions)
        await wait_for(reply)


async def test_the_controller_uses_its_own_listener(tmp_path: Path) -> None:
    configs: dict[str, Any] = {
        "listeners": "PLAINTEXT://:9092,CONTROL://:9093",
        "listener_security_protocol_map": "PLAINTEXT:PLAINTEXT,CONTROL:PLAINTEXT",
        "control_plane_listener_name": "control",
    }
    async with running(tmp_path, 0, **configs) as cluster:
        broker = cluster.brokers[0]
        endpoints = (Endpoint("PLAINTEXT", "data", 1), Endpoint("CONTROL", "control", 2))
        await update_registration(broker.session, BrokerInfo(0, endpoints), NOW_MS)
        await until(lambda: broker.controller.address(0) == ("control", 2))
        assert broker.controller.address(5) is None


async def test_a_broker_that_is_not_the_controller_knows_no_addresses(tmp_path: Path) -> None:
    async with running(tmp_path, 0, 1, kind=NetworkedBroker) as cluster:
        assert cluster.brokers[0].controller.address(1) is not None
        assert cluster.brokers[1].controller.address(0) is None
        with suppress(OSError):
            await (
                cluster.brokers[1]
                .peer_of(0)
                .send(UpdateMetadataRequest(controller_epoch=1, controller_id=1, live_brokers=()))
            )
