"""Produce: append records to partitions.

Behaviour:
- acks=1 is answered after the append, acks=-1 when the high watermark has passed the records. acks=0 is not answered:
  an error closes the connection.
- With flush.messages=1, acks=1 waits for the fsync too.
- A batch that takes long to validate or to recompress is handled in a worker thread, and the connection is muted. It
  is muted, too, for an append to a log directory whose writes are slow.
- Of two entries for one partition, the later one counts.
Deviations: There are no transactions yet. Their records get NOT_ENOUGH_REPLICAS, which producers retry, as from a
broker that cannot reach the transaction coordinator.
Versions: 3 to 11 (0 to 2 are advertised, and close the connection). From 5 the log start offset; from 7 zstd; from 8
record errors and an error message; from 10 the new leader and its endpoint.
Counterpart in Kafka: KafkaApis.handleProduceRequest.
"""

import logging
from collections.abc import Container, Iterable, Mapping, Sequence
from typing import Final

from ottla.broker.loop.clock import Clock, Offload, StartSoon
from ottla.broker.loop.deferred import CloseConnection, Deferred
from ottla.broker.net.session import RequestContext
from ottla.broker.replicas.manager import ReplicaManager
from ottla.broker.replicas.partition import Partition
from ottla.broker.replicas.slow_appends import SlowAppends
from ottla.log.append_info import LogAppendInfo
from ottla.wire.errors import DecodeError, ErrorCode, KafkaError
from ottla.wire.messages.produce import (
    BatchIndexAndErrorMessage,
    LeaderIdAndEpoch,
    NodeEndpoint,
    PartitionProduceResponse,
    ProduceRequest,
    ProduceResponse,
    TopicProduceResponse,
)
from ottla.wire.records.batch import (
    InvalidRecordsError,
    NotOneBatchError,
    ProducedBatch,
    RecordRules,
    UnreadableStartError,
    check_start,
    needs_offload,
    recompressed,
    recompression_needs_offload,
    size_of_one_batch,
    validate_produced,
)

logger = logging.getLogger("kafka.server.KafkaApis")

Key = tuple[str, int]
_OrNone = ProduceResponse | None
_ToValidate = tuple[memoryview | None, int, RecordRules, int]
_Response = ProduceResponse | Deferred[ProduceResponse] | Deferred[_OrNone]
_Entry = tuple[Partition, ProducedBatch]
Answer = ProduceResponse | Deferred[ProduceResponse] | Deferred[_OrNone] | None

_FIRST_VERSION: Final = 3
_LEADERS_FROM_VERSION: Final = 10
_ADMIN_CLIENT_ID: Final = "__admin_client"
_INTERNAL_TOPICS: Final = frozenset({"__consumer_offsets", "__transaction_state"})
# In a batch: the position of its attributes, their bit of a transaction, and the producer's id and epoch.
_ATTRIBUTES_AT: Final = 22
_TRANSACTIONAL: Final = 0x10
_PRODUCER: Final = slice(43, 53)
# A wait for this broker's disk alone has no timeout, because Kafka flushes before the timeout begins.
_UNTIL_FLUSHED: Final = 2**31 - 1
_NO_COORDINATOR: Final = (
    "Unable to verify the partition has been added to the transaction. Underlying error: COORDINATOR_NOT_AVAILABLE"
)

# As in Kafka, these errors come without the log start offset. A healthy client may cause them.
_WITHOUT_START_OFFSET: Final = frozenset(
    {
        ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
        ErrorCode.NOT_LEADER_OR_FOLLOWER,
        ErrorCode.MESSAGE_TOO_LARGE,
        ErrorCode.RECORD_LIST_TOO_LARGE,
        ErrorCode.CORRUPT_MESSAGE,
        ErrorCode.KAFKA_STORAGE_ERROR,
        ErrorCode.INVALID_REQUIRED_ACKS,
        ErrorCode.INVALID_TOPIC_EXCEPTION,
    }
)


def handle(
    request: ProduceRequest,
    context: RequestContext,
    *,
    replicas: ReplicaManager,
    clock: Clock,
    offload: Offload,
    start_soon: StartSoon,
    slow_appends: SlowAppends,
) -> Answer:
    """Append, and return the response that `acks` asks for. `offload` has threads of its own, for validation only."""
    version = context.api_version
    if version < _FIRST_VERSION:
        raise DecodeError(f"Produce {version} is advertised, but not served")
    acks = request.acks
    topics = request.topic_data
    if len(topics) != 1 or len(topics[0].partition_data) != 1 or not -1 <= acks <= 1:
        return _Produce(request, context, replicas, clock, offload, start_soon, slow_appends).start()
    # The fast path: one partition, one plain batch.
    topic = topics[0].name
    data = topics[0].partition_data[0]
    index = data.index
    records = data.records
    found = replicas.partitions.get((topic, index))
    if (
        found is None
        or found.rules.compression is not None
        or found.log.pace.is_slow
        or not isinstance(records, memoryview)
        or _is_special(topic, records)
    ):
        return _Produce(request, context, replicas, clock, offload, start_soon, slow_appends).start()
    now_ms = clock.now_ms()
    try:
        batch = validate_produced(records, api_version=version, rules=found.rules, now_ms=now_ms)
        info = replicas.append(found, batch, acks, now_ms)
    except KafkaError as error:
        answer = _refused(index, error, found)
        return _Answers(context, replicas, acks).response({(topic, index): answer})
    if acks == 0:
        return None
    answer = _appended(index, info)
    if found.flushes_by_count or (found.followers and acks == -1):
        answers = _Answers(context, replicas, acks)
        wait = [(found, info.last_offset + 1)]
        return answers.acknowledged({(topic, index): answer}, wait, request.timeout_ms)
    return ProduceResponse(responses=[TopicProduceResponse(name=topic, partition_responses=[answer])])


def error_response(request: ProduceRequest, version: int, code: ErrorCode) -> ProduceResponse:
    """Return the error for each partition. With acks=0 close the connection."""
    if request.acks == 0:
        raise CloseConnection(f"Produce with acks=0: {code.name}")
    return ProduceResponse(
        responses=[
            TopicProduceResponse(
                name=topic.name,
                topic_id=topic.topic_id,
                partition_responses=[_failed(data.index, code) for data in topic.partition_data],
            )
            for topic in request.topic_data
        ]
    )


def _is_special(topic: str, records: memoryview) -> bool:
    return topic in _INTERNAL_TOPICS or _is_transactional(records) or needs_offload(records)


def _is_transactional(records: memoryview) -> bool:
    return len(records) > _ATTRIBUTES_AT and records[_ATTRIBUTES_AT] & _TRANSACTIONAL != 0


def _appended(index: int, info: LogAppendInfo) -> PartitionProduceResponse:
    return PartitionProduceResponse(
        index=index,
        error_code=0,
        base_offset=info.first_offset,
        log_append_time_ms=info.log_append_time_ms,
        log_start_offset=info.log_start_offset,
    )


def _failed(index: int, code: ErrorCode) -> PartitionProduceResponse:
    return PartitionProduceResponse(index=index, error_code=code, base_offset=-1)


def _unreadable(index: int, error: UnreadableStartError) -> PartitionProduceResponse:
    answer = _failed(index, error.code)
    answer.error_message = error.detail
    return answer


def _refused(index: int, error: KafkaError, partition: Partition) -> PartitionProduceResponse:
    """Return the error of validation or of the log."""
    answer = _failed(index, error.code)
    if error.code not in _WITHOUT_START_OFFSET and not isinstance(error, NotOneBatchError):
        answer.log_start_offset = partition.log.log_start_offset
    if isinstance(error, UnreadableStartError):
        return _unreadable(index, error)
    if isinstance(error, InvalidRecordsError):
        answer.error_message = error.detail
        answer.record_errors = [
            BatchIndexAndErrorMessage(batch_index=at, batch_index_error_message=message)
            for at, message in error.record_errors
        ]
    return answer


class _Answers:
    """Makes the response. It must not refer to the records, because they must not be kept while a reply waits."""

    __slots__ = ("_acks", "_listener", "_replicas", "_version")

    def __init__(self, context: RequestContext, replicas: ReplicaManager, acks: int) -> None:
        self._acks = acks
        self._replicas = replicas
        self._listener = context.listener_name
        self._version = context.api_version

    def response(self, answers: Mapping[Key, PartitionProduceResponse]) -> ProduceResponse:
        """Return all answers by topic. With acks=0 an error closes the connection."""
        by_topic: dict[str, list[PartitionProduceResponse]] = {}
        endpoints: dict[int, NodeEndpoint] = {}
        for (topic, index), answer in answers.items():
            if answer.error_code == ErrorCode.NOT_LEADER_OR_FOLLOWER and self._version >= _LEADERS_FROM_VERSION:
                self._point_to_leader(topic, index, answer, endpoints)
            if answer.error_code != ErrorCode.NONE and self._acks == 0:
                raise CloseConnection(f"Produce with acks=0 failed for {topic}-{index}: error {answer.error_code}")
            by_topic.setdefault(topic, []).append(answer)
        return ProduceResponse(
            responses=[TopicProduceResponse(name=name, partition_responses=found) for name, found in by_topic.items()],
            node_endpoints=list(endpoints.values()),
        )

    def acknowledged(
        self,
        answers: Mapping[Key, PartitionProduceResponse],
        appended: Sequence[tuple[Partition, int]],
        timeout_ms: int,
    ) -> Deferred[ProduceResponse]:
        """Return a response that comes when all appended records are acknowledged."""

        def respond(errors: list[ErrorCode]) -> ProduceResponse:
            for (partition, _), error in zip(appended, errors, strict=True):
                answers[partition.topic_partition].error_code = error
            return self.response(answers)

        if self._acks != -1 or not any(partition.followers for partition, _ in appended):
            timeout_ms = _UNTIL_FLUSHED
        return self._replicas.await_acks(appended, self._acks, timeout_ms, respond)

    def _point_to_leader(
        self, topic: str, index: int, answer: PartitionProduceResponse, endpoints: dict[int, NodeEndpoint]
    ) -> None:
        leader, epoch, node = self._replicas.current_leader(topic, index, self._listener)
        answer.current_leader = LeaderIdAndEpoch(leader_id=leader, leader_epoch=epoch)
        if node is not None:
            endpoints[leader] = NodeEndpoint(node_id=leader, host=node.host, port=node.port, rack=node.rack)


class _Produce:
    """A request that is not on the fast path: several partitions, or records that need more checks."""

    __slots__ = (
        "_acks",
        "_answers",
        "_clock",
        "_entries",
        "_from_admin",
        "_maker",
        "_offload",
        "_replicas",
        "_slow_appends",
        "_start_soon",
        "_timeout_ms",
        "_unreadable",
        "_version",
    )

    def __init__(
        self,
        request: ProduceRequest,
        context: RequestContext,
        replicas: ReplicaManager,
        clock: Clock,
        offload: Offload,
        start_soon: StartSoon,
        slow_appends: SlowAppends,
    ) -> None:
        self._acks = request.acks
        self._timeout_ms = request.timeout_ms
        self._version = context.api_version
        self._from_admin = context.client_id == _ADMIN_CLIENT_ID
        self._replicas = replicas
        self._clock = clock
        self._offload = offload
        self._start_soon = start_soon
        self._slow_appends = slow_appends
        self._maker = _Answers(context, replicas, request.acks)
        # As in Kafka, the later of two entries for one partition counts. This object ends with the append, because the
        # records must not be kept while a reply waits.
        self._entries = {
            (topic.name, data.index): data.records if isinstance(data.records, memoryview) else None
            for topic in request.topic_data
            for data in topic.partition_data
        }
        self._answers: dict[Key, PartitionProduceResponse] = {}
        self._unreadable: UnreadableStartError | None = None
        try:
            _check_producers(
                (data.records for topic in request.topic_data for data in topic.partition_data),
                request.transactional_id,
            )
        except UnreadableStartError as error:
            self._unreadable = error

    def start(self) -> Answer:
        """Validate, recompress and append. Batches for which that takes long go to a worker thread first."""
        if self._unreadable is not None:
            # As in Kafka, the check for transactions comes first, and fails for the whole request.
            return self._maker.response({key: _unreadable(key[1], self._unreadable) for key in self._entries})
        for key, records in self._entries.items():
            answer = self._refusal(key, records)
            if answer is not None:
                self._answers[key] = answer
        left = [(key, records) for key, records in self._entries.items() if key not in self._answers]
        now_ms = self._clock.now_ms()
        plans = {key: (records, self._version, self._replicas.partitions[key].rules, now_ms) for key, records in left}
        slow = {
            key
            for key, (records, _, rules, _) in plans.items()
            if records is not None
            and (needs_offload(records) or recompression_needs_offload(records, rules, len(plans)))
        }
        if slow:
            deferred: Deferred[_OrNone] = Deferred(applied=False)
            self._start_soon(self._run_off_loop, plans, slow, deferred)
            return deferred
        response = self._append({key: _validated(*plan) for key, plan in plans.items()})
        return response if self._acks or isinstance(response, Deferred) else None

    def _refusal(self, key: Key, records: memoryview | None) -> PartitionProduceResponse | None:
        """Return an error that needs no validation of the records, only that they are one batch; else None."""
        topic, index = key
        not_here: PartitionProduceResponse | None = None
        try:
            self._replicas.partition(topic, index)
        except KafkaError as error:
            not_here = _failed(index, error.code)
            if error.code == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION:
                return not_here
        answer = self._refusal_of_sound_records(topic, index, records) or not_here
        if answer is not None:
            try:
                size_of_one_batch(records, self._version)
            except UnreadableStartError as error:
                return _unreadable(index, error)
            except KafkaError as error:
                # As in Kafka, this error comes first.
                return _failed(index, error.code)
        return answer

    def _refusal_of_sound_records(
        self, topic: str, index: int, records: memoryview | None
    ) -> PartitionProduceResponse | None:
        if not -1 <= self._acks <= 1:
            return _failed(index, ErrorCode.INVALID_REQUIRED_ACKS)
        if topic in _INTERNAL_TOPICS and not self._from_admin:
            return _failed(index, ErrorCode.INVALID_TOPIC_EXCEPTION)
        if records is not None and _is_transactional(records):
            answer = _failed(index, ErrorCode.NOT_ENOUGH_REPLICAS)
            answer.error_message = _NO_COORDINATOR
            return answer
        return None

    async def _run_off_loop(
        self, plans: Mapping[Key, _ToValidate], slow: Container[Key], deferred: Deferred[_OrNone]
    ) -> None:
        """Validate slow batches in a worker thread, one after the other, then append."""
        response: _Response
        try:
            batches = {}
            for key, plan in plans.items():
                batches[key] = await self._offload(_validated, *plan) if key in slow else _validated(*plan)
            response = self._append(batches)
        except CloseConnection as reason:
            deferred.close(reason)
            return
        except Exception:
            logger.exception(
                "A bug: Produce failed, the client gets UNKNOWN_SERVER_ERROR, or with acks=0 is disconnected"
            )
            if not self._acks:
                deferred.close(CloseConnection("Produce with acks=0 failed"))
                return
            failed = {key: _failed(key[1], ErrorCode.UNKNOWN_SERVER_ERROR) for key in self._entries}
            response = self._maker.response(failed)
        self._pass_on(response, deferred)

    def _pass_on(self, response: _Response, deferred: Deferred[_OrNone]) -> None:
        if isinstance(response, Deferred):
            deferred.on_abandon = response.abandon
            response.then(deferred.complete, deferred.close)
        else:
            deferred.complete(response if self._acks else None)

    def _append(self, batches: Mapping[Key, ProducedBatch | KafkaError]) -> _Response:
        """Append the valid batches, and return the response."""
        replicas = self._replicas
        entries = []
        for key, batch in batches.items():
            partition = replicas.partitions.get(key)
            if partition is None:
                # The partition went away during the validation.
                self._answers[key] = _failed(key[1], ErrorCode.NOT_LEADER_OR_FOLLOWER)
            elif isinstance(batch, KafkaError):
                self._answers[key] = _refused(key[1], batch, partition)
            else:
                entries.append((partition, batch))
        if any(partition.log.pace.is_slow for partition, _ in entries):
            return self._append_slowly(entries)
        now_ms = self._clock.now_ms()
        results: list[LogAppendInfo | KafkaError] = []
        for partition, produced in entries:
            try:
                results.append(replicas.append(partition, produced, self._acks, now_ms))
            except KafkaError as error:
                results.append(error)
        return self._appended(entries, results)

    def _append_slowly(self, entries: Sequence[_Entry]) -> Deferred[_OrNone]:
        """Queue the append. The connection is muted, whatever `acks` is, because that bounds the queued records."""
        deferred: Deferred[_OrNone] = Deferred(applied=False)

        def done(results: Sequence[LogAppendInfo | KafkaError]) -> None:
            try:
                self._pass_on(self._appended(entries, results), deferred)
            except CloseConnection as reason:
                deferred.close(reason)
            except Exception:
                deferred.close(CloseConnection("a bug: Produce failed"))
                raise

        self._slow_appends.append_all(entries, self._acks, done)
        return deferred

    def _appended(
        self, entries: Sequence[_Entry], results: Sequence[LogAppendInfo | KafkaError]
    ) -> ProduceResponse | Deferred[ProduceResponse]:
        """Return the response for all partitions, in the order of the request."""
        waiting = []
        for (partition, _), result in zip(entries, results, strict=True):
            topic, index = partition.topic_partition
            if isinstance(result, KafkaError):
                self._answers[topic, index] = _refused(index, result, partition)
            else:
                self._answers[topic, index] = _appended(index, result)
                waiting.append((partition, result.last_offset + 1))
        answers = {key: self._answers[key] for key in self._entries}
        may_wait = any(p.flushes_by_count or (p.followers and self._acks == -1) for p, _ in waiting)
        if may_wait and self._acks != 0:
            return self._maker.acknowledged(answers, waiting, self._timeout_ms)
        return self._maker.response(answers)


def _validated(records: memoryview | None, version: int, rules: RecordRules, now_ms: int) -> ProducedBatch | KafkaError:
    try:
        return recompressed(validate_produced(records, api_version=version, rules=rules, now_ms=now_ms), rules)
    except KafkaError as error:
        return error


def _check_producers(entries: Iterable[object], transactional_id: str | None) -> None:
    """Raise KafkaError unless records of a transaction come with its id and from one producer.

    Raise UnreadableStartError for records before them that do not begin with a batch.
    """
    batches: list[memoryview] = []
    for records in entries:
        if isinstance(records, memoryview):
            if _is_transactional(records):
                batches.append(records)
            elif not batches:
                check_start(records)
    if not batches:
        return
    if transactional_id is None:
        raise KafkaError(ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED, "transactional records without an id")
    producers = {bytes(records[_PRODUCER]) for records in batches}
    if len(producers) > 1:
        raise KafkaError(ErrorCode.INVALID_PRODUCER_ID_MAPPING, "transactional records of more than one producer")
