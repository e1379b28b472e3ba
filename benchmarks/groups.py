"""The cost of consumer groups: commits, assignment, consuming as a group, and heartbeats."""

import selectors
import socket
import time
from collections.abc import Sequence
from typing import Final, cast

import confluent_kafka

from benchmarks.measuring import Sample, cpu_seconds, driven, topic_of, unique
from benchmarks.workloads import SECONDS, Workload, address, metered_tool, sampled
from compat_tests.support.brokers import Broker
from ottla.wire.codec import decode_response, encode_request
from ottla.wire.messages.heartbeat import HeartbeatRequest, HeartbeatResponse
from ottla.wire.messages.join_group import JoinGroupRequest, JoinGroupRequestProtocol, JoinGroupResponse
from ottla.wire.messages.leave_group import LeaveGroupRequest, LeaveGroupResponse
from ottla.wire.messages.offset_commit import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
    OffsetCommitResponse,
)
from ottla.wire.messages.sync_group import SyncGroupRequest, SyncGroupRequestAssignment, SyncGroupResponse
from ottla.wire.schema import Request, Response

COMMIT_VERSION: Final = 8
JOIN_VERSION: Final = 5
SYNC_VERSION: Final = 3
HEARTBEAT_VERSION: Final = 3
LEAVE_VERSION: Final = 2
COMMITTERS: Final = 32
IN_FLIGHT: Final = 5
CONSUMERS: Final = 50
GROUPS: Final = 100
MEMBERS_A_GROUP: Final = 10
HEARTBEAT_SECONDS: Final = 3.0
AT_REST_SECONDS: Final = 12.0
SESSION_TIMEOUT_MS: Final = 45_000
REBALANCE_TIMEOUT_MS: Final = 60_000
PATIENCE_S: Final = 120.0
UNKNOWN_MEMBER_ID: Final = ""


def offset_commits(broker: Broker, seconds: float = SECONDS) -> Sample:
    """Return the commits a second, one partition each, of 32 groups without members."""
    _wait_for_coordinator(broker)

    def check(reply: memoryview) -> None:
        _, response = decode_response(reply, OffsetCommitRequest, COMMIT_VERSION)
        codes = [p.error_code for t in cast(OffsetCommitResponse, response).topics for p in t.partitions]
        if codes != [0]:
            raise RuntimeError(f"commit failed: {codes}")

    with topic_of(broker, "committed") as topic:

        def frames(connection: int) -> Sequence[bytes]:
            partition = OffsetCommitRequestPartition(partition_index=0, committed_offset=7, committed_metadata="")
            topics = [OffsetCommitRequestTopic(name=topic, partitions=[partition])]
            request = OffsetCommitRequest(group_id=f"committer-{connection}", topics=topics)
            return [encode_request(COMMIT_VERSION, 7, "bench", request)]

        load = {"connections": COMMITTERS, "in_flight": IN_FLIGHT}
        done = driven(broker, frames, seconds=seconds, check=sampled(check, 100), **load)
    return Sample(done.replies, done.cpu_us)


def assignment_of_many(broker: Broker) -> Sample:
    """Return the seconds from the start of 50 consumers of one group until each has its partition."""
    _wait_for_coordinator(broker)
    with topic_of(broker, "shared-out", CONSUMERS) as topic:
        return Sample(_assigned_in(broker, topic))


def _assigned_in(broker: Broker, topic: str) -> float:
    assigned: dict[confluent_kafka.Consumer, int] = {}

    def take(consumer: confluent_kafka.Consumer, partitions: list[confluent_kafka.TopicPartition]) -> None:
        assigned[consumer] = len(partitions)

    def lose(consumer: confluent_kafka.Consumer, _: list[confluent_kafka.TopicPartition]) -> None:
        assigned.pop(consumer, None)

    settings = {"bootstrap.servers": broker.bootstrap, "group.id": unique("many"), "enable.auto.commit": False}
    began = time.monotonic()
    consumers = [confluent_kafka.Consumer(settings) for _ in range(CONSUMERS)]
    try:
        for consumer in consumers:
            consumer.subscribe([topic], on_assign=take, on_revoke=lose)
        while len(assigned) < CONSUMERS or set(assigned.values()) != {1}:
            if time.monotonic() - began > PATIENCE_S:
                raise RuntimeError(f"after {PATIENCE_S} s only {len(assigned)} are assigned")
            for consumer in consumers:
                consumer.poll(0)
            time.sleep(0.005)
        return time.monotonic() - began
    finally:
        for consumer in consumers:
            consumer.close()


def consumer_performance(broker: Broker) -> Sample:
    """Return the records a second of Kafka's ConsumerPerformance over 5,000,000 x 100 B."""
    count = 5_000_000
    with topic_of(broker, "consumed") as topic:
        metered_tool(
            broker,
            "org.apache.kafka.tools.ProducerPerformance",
            *("--topic", topic, "--num-records", str(count), "--record-size", "100", "--throughput", "-1"),
        )
        printed, used = metered_tool(
            broker,
            "org.apache.kafka.tools.ConsumerPerformance",
            *("--topic", topic, "--messages", str(count), "--group", unique("performance"), "--timeout", "60000"),
        )
    header, figures = (line.split(", ") for line in printed.strip().splitlines()[-2:])
    found = dict(zip(header, figures, strict=True))
    if int(found["data.consumed.in.nMsg"]) < count:
        raise RuntimeError(printed)
    return Sample(float(found["nMsg.sec"]), 1e6 * used / count)


class _Member:
    """A member of a group that only sends heartbeats."""

    def __init__(self, broker: Broker, group: str) -> None:
        self.socket = socket.create_connection(address(broker))
        self.socket.settimeout(PATIENCE_S)
        self.group = group
        self.id = UNKNOWN_MEMBER_ID
        self.generation = -1
        self.followers: Sequence[str] = ()

    def send(self, version: int, request: Request) -> None:
        self.socket.sendall(encode_request(version, 7, "bench", request))

    def receive(self, request: type[Request], version: int) -> Response:
        size = int.from_bytes(self._exactly(4), "big")
        _, response = decode_response(memoryview(self._exactly(size)), request, version)
        return response

    def _exactly(self, count: int) -> bytes:
        data = b""
        while len(data) < count:
            piece = self.socket.recv(count - len(data))
            if not piece:
                raise ConnectionError("the broker closed a member's connection")
            data += piece
        return data

    def join(self) -> None:
        protocols = [JoinGroupRequestProtocol(name="range", metadata=b"")]
        request = JoinGroupRequest(
            group_id=self.group,
            session_timeout_ms=SESSION_TIMEOUT_MS,
            rebalance_timeout_ms=REBALANCE_TIMEOUT_MS,
            member_id=self.id,
            protocol_type="consumer",
            protocols=protocols,
        )
        self.send(JOIN_VERSION, request)

    def joined(self) -> None:
        response = cast(JoinGroupResponse, self.receive(JoinGroupRequest, JOIN_VERSION))
        self.id = response.member_id
        self.generation = response.generation_id
        self.followers = [each.member_id for each in response.members]

    def sync(self) -> None:
        assignments = [SyncGroupRequestAssignment(member_id=each, assignment=b"all") for each in self.followers]
        request = SyncGroupRequest(
            group_id=self.group, generation_id=self.generation, member_id=self.id, assignments=assignments
        )
        self.send(SYNC_VERSION, request)

    def synced(self) -> None:
        response = cast(SyncGroupResponse, self.receive(SyncGroupRequest, SYNC_VERSION))
        if response.error_code or bytes(response.assignment) != b"all":
            raise RuntimeError(f"a member was not assigned anything: {response}")

    def heartbeat(self) -> None:
        request = HeartbeatRequest(group_id=self.group, generation_id=self.generation, member_id=self.id)
        self.send(HEARTBEAT_VERSION, request)

    def alive(self) -> None:
        response = cast(HeartbeatResponse, self.receive(HeartbeatRequest, HEARTBEAT_VERSION))
        if response.error_code:
            raise RuntimeError(f"a heartbeat failed: {response}")

    def leave(self) -> None:
        self.send(LEAVE_VERSION, LeaveGroupRequest(group_id=self.group, member_id=self.id))

    def left(self) -> None:
        response = cast(LeaveGroupResponse, self.receive(LeaveGroupRequest, LEAVE_VERSION))
        if response.error_code:
            raise RuntimeError(f"a member could not leave: {response}")


def members_at_rest(broker: Broker) -> Sample:
    """Return the broker's processor time, in seconds a minute, for the heartbeats of 1,000 members in 100 groups."""
    _wait_for_coordinator(broker)
    groups = [unique("resting") for _ in range(GROUPS)]
    members = [_Member(broker, group) for _ in range(MEMBERS_A_GROUP) for group in groups]
    try:
        # The first response only has the member's id, with which the member joins again.
        for _ in range(2):
            for member in members:
                member.join()
            for member in members:
                member.joined()
        for member in members:
            member.sync()
        for member in members:
            member.synced()
        before = cpu_seconds(broker)
        began = time.monotonic()
        served = _rest(members, began)
        took = time.monotonic() - began
        expected = len(members) * AT_REST_SECONDS / HEARTBEAT_SECONDS
        if served < expected * 0.95:
            raise RuntimeError(f"{served} heartbeats were served, not {expected}")
        used = cpu_seconds(broker) - before
        # Because otherwise their sessions would time out during the next measurement.
        for member in members:
            member.leave()
        for member in members:
            member.left()
        return Sample(used * 60 / took)
    finally:
        for member in members:
            member.socket.close()


def _rest(members: Sequence[_Member], began: float) -> int:
    """Send each member's heartbeat every three seconds, evenly spread; return the count of responses."""
    pause = HEARTBEAT_SECONDS / len(members)
    served = number = 0
    with selectors.DefaultSelector() as selector:
        for member in members:
            selector.register(member.socket, selectors.EVENT_READ, member)
        while (now := time.monotonic()) < began + AT_REST_SECONDS:
            due = int((now - began) / pause)
            for each in range(number, due):
                members[each % len(members)].heartbeat()
            number = due
            for key, _ in selector.select(pause):
                key.data.alive()
                served += 1
    return served


def _wait_for_coordinator(broker: Broker) -> None:
    """Wait until groups are served, because the topic of their offsets is created at first use."""
    settings = {"bootstrap.servers": broker.bootstrap, "group.id": "first", "enable.auto.commit": False}
    consumer = confluent_kafka.Consumer(settings)
    try:
        deadline = time.monotonic() + PATIENCE_S
        while True:
            try:
                consumer.committed([confluent_kafka.TopicPartition("first", 0)], PATIENCE_S)
                return
            except confluent_kafka.KafkaException:
                if time.monotonic() > deadline:
                    raise
                time.sleep(0.1)
    finally:
        consumer.close()


WORKLOADS: Final = (
    Workload("offset commits, 32 connections x 5", "requests/s", 1.3, True, offset_commits),
    Workload("50 consumers until all are assigned", "s", 1.0, False, assignment_of_many),
    Workload("ConsumerPerformance, 5,000,000 x 100 B", "records/s", 1.0, True, consumer_performance, True),
    Workload("1,000 members at rest, processor time a minute", "s", 1.0, False, members_at_rest),
)
