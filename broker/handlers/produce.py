"""Produce: append records to partitions.

Behaviour:
- acks=1 is answered after the append, acks=-1 when the high watermark has passed the records. acks=0 is not answered:
  an error closes the connection.
- With flush.messages=1, acks=1 waits for the fsync too.
- A batch that takes long to validate or to recompress is handled in a worker thread, and the connection is muted. It
  is muted, too, for an append to a log directory whose writes are slow.
- Of two entries for one partition, the later one counts.
- Before a producer's first append in a transaction the transaction coordinator is asked whether the partition is in it.
  If the coordinator cannot answer, the records get NOT_ENOUGH_REPLICAS, which producers retry.
Versions: 3 to 11 (0 to 2 are advertised, and close the connection). From 5 the log start offset; from 7 zstd; from 8
record errors and an error message; from 10 the new leader and its endpoint.
Counterpart in Kafka: KafkaApis.handleProduceRequest.
"""

import contextlib
import logging
import struct
from collections.abc import Container, Iterable, Mapping, Sequence
from functools import partial
from typing import Final

from ottla.broker.loop.clock import Clock, Offload, StartSoon
from ottla.broker.loop.deferred import CloseConnection, Deferred
from ottla.broker.net.session import RequestContext
from ottla.broker.replicas.manager import ReplicaManager
from ottla.broker.replicas.partition import Partition
from ottla.broker.replicas.produce_responses import Key, ProduceAnswers, appended, explained, failed, refused
from ottla.broker.replicas.slow_appends import SlowAppends
from ottla.broker.transactions.verification import Errors, Question, Verifier, produce_error
from ottla.log.append_info import LogAppendInfo
from ottla.log.state.verification import UNVERIFIED, TransactionalAppend
from ottla.wire.errors import DecodeError, ErrorCode, KafkaError
from ottla.wire.messages.produce import (
    PartitionProduceResponse,
    ProduceRequest,
    ProduceResponse,
    TopicProduceResponse,
)
from ottla.wire.records.batch import (
    HEADER_SIZE,
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
from ottla.wire.types import NO_EPOCH, TopicPartition

logger = logging.getLogger("kafka.server.KafkaApis")

_OrNone = ProduceResponse | None
_ToValidate = tuple[memoryview | None, int, RecordRules, int]
_Response = ProduceResponse | Deferred[ProduceResponse] | Deferred[_OrNone]
_Entry = tuple[Partition, ProducedBatch]
Answer = ProduceResponse | Deferred[ProduceResponse] | Deferred[_OrNone] | None

_FIRST_VERSION: Final = 3
_ABORTABLE_FROM_VERSION: Final = 11
_ADMIN_CLIENT_ID: Final = "__admin_client"
_INTERNAL_TOPICS: Final = frozenset({"__consumer_offsets", "__transaction_state"})
# In a batch: the position of its attributes, their bit of a transaction, and the producer's id and epoch.
_ATTRIBUTES_AT: Final = 22
_TRANSACTIONAL: Final = 0x10
_PRODUCER: Final = slice(43, 53)
# The first byte of a negative number has this bit.
_NEGATIVE: Final = 0x80
_PRODUCER_AND_SEQUENCE: Final = struct.Struct(">qhi")
_MIXED: Final = "Transactional records contained more than one producer ID"
_NOT_ADDED: Final = "Partition was not added to the transaction"
_NOT_VERIFIED: Final = "Unable to verify the partition has been added to the transaction. Underlying error: "


def handle(
    request: ProduceRequest,
    context: RequestContext,
    *,
    replicas: ReplicaManager,
    clock: Clock,
    offload: Offload,
    start_soon: StartSoon,
    slow_appends: SlowAppends,
    verifier: Verifier,
) -> Answer:
    """Append, and return the response that `acks` asks for. `offload` has threads of its own, for validation only."""
    version = context.api_version
    if version < _FIRST_VERSION:
        raise DecodeError(f"Produce {version} is advertised, but not served")
    acks = request.acks
    topics = request.topic_data
    if len(topics) != 1 or len(topics[0].partition_data) != 1 or not -1 <= acks <= 1:
        return _Produce(request, context, replicas, clock, offload, start_soon, slow_appends, verifier).start()
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
        return _Produce(request, context, replicas, clock, offload, start_soon, slow_appends, verifier).start()
    now_ms = clock.now_ms()
    try:
        batch = validate_produced(records, api_version=version, rules=found.rules, now_ms=now_ms)
        info = replicas.append(found, batch, acks, now_ms)
    except KafkaError as error:
        answer = refused(index, error, found)
        return ProduceAnswers(context, replicas, acks).response({(topic, index): answer})
    if acks == 0:
        return None
    answer = appended(index, info)
    if found.flushes_by_count or (found.followers and acks == -1):
        answers = ProduceAnswers(context, replicas, acks)
        wait = [(found, info.last_offset + 1)]
        return answers.acknowledged({(topic, index): answer}, wait, request.timeout_ms)
    return ProduceResponse(responses=[TopicProduceResponse(name=topic, partition_responses=[answer])])


def error_response(request: ProduceRequest, version: int, code: ErrorCode) -> ProduceResponse:
    """Return the error for each partition, also for one that is there twice. With acks=0 close the connection."""
    if request.acks == 0:
        raise CloseConnection(f"Produce with acks=0: {code.name}")
    refused: dict[tuple[str, bytes], dict[int, PartitionProduceResponse]] = {}
    for topic in request.topic_data:
        found = refused.setdefault((topic.name, topic.topic_id), {})
        found.update((data.index, failed(data.index, code)) for data in topic.partition_data)
    return ProduceResponse(
        responses=[
            TopicProduceResponse(name=name, topic_id=topic_id, partition_responses=[*found.values()])
            for (name, topic_id), found in refused.items()
        ]
    )


def _is_special(topic: str, records: memoryview) -> bool:
    return topic in _INTERNAL_TOPICS or _is_transactional(records) or needs_offload(records)


def _is_transactional(records: memoryview) -> bool:
    return len(records) > _ATTRIBUTES_AT and records[_ATTRIBUTES_AT] & _TRANSACTIONAL != 0


def _is_in_transaction(records: memoryview) -> bool:
    """Whether records are of a transaction and have a producer id. Kafka appends those without one like others."""
    return _is_transactional(records) and len(records) >= HEADER_SIZE and records[_PRODUCER.start] < _NEGATIVE


def _unverified(index: int, code: ErrorCode, version: int) -> PartitionProduceResponse:
    """Return the error of a partition that the coordinator did not find in the transaction, or could not look for."""
    answer = failed(index, produce_error(code, knows_abortable=version >= _ABORTABLE_FROM_VERSION))
    if answer.error_code == ErrorCode.NOT_ENOUGH_REPLICAS:
        answer.error_message = _NOT_VERIFIED + code.name
    elif answer.error_code == ErrorCode.INVALID_TXN_STATE:
        answer.error_message = _NOT_ADDED
    return answer


class _Produce:
    """A request that is not on the fast path: several partitions, or records that need more checks."""

    __slots__ = (
        "_acks",
        "_answers",
        "_clock",
        "_entries",
        "_from_admin",
        "_how",
        "_maker",
        "_offload",
        "_replicas",
        "_slow_appends",
        "_start_soon",
        "_timeout_ms",
        "_transactional_id",
        "_unreadable",
        "_verifier",
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
        verifier: Verifier,
    ) -> None:
        self._acks = request.acks
        self._transactional_id = request.transactional_id
        self._verifier = verifier
        # By partition, for the batches of a transaction.
        self._how: dict[Key, TransactionalAppend] = {}
        self._timeout_ms = request.timeout_ms
        self._version = context.api_version
        self._from_admin = context.client_id == _ADMIN_CLIENT_ID
        self._replicas = replicas
        self._clock = clock
        self._offload = offload
        self._start_soon = start_soon
        self._slow_appends = slow_appends
        self._maker = ProduceAnswers(context, replicas, request.acks)
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
            _check_transactional_id(
                (data.records for topic in request.topic_data for data in topic.partition_data),
                request.transactional_id,
            )
        except UnreadableStartError as error:
            self._unreadable = error

    def start(self) -> Answer:
        """Validate, recompress and append. Batches for which that takes long go to a worker thread first."""
        if self._unreadable is not None:
            # As in Kafka, the check for transactions comes first, and fails for the whole request.
            return self._refuse_all(self._unreadable)
        for key, records in self._entries.items():
            answer = self._refusal(key, records)
            if answer is not None:
                self._answers[key] = answer
        in_transaction = self._in_transaction()
        if len({bytes(records[_PRODUCER]) for records in in_transaction.values()}) > 1:
            return self._refuse_all(KafkaError(ErrorCode.INVALID_PRODUCER_ID_MAPPING, _MIXED))
        questions = self._begin_verification(in_transaction)
        if questions is None:
            response = self._go_on()
            return response if self._acks or isinstance(response, Deferred) else None
        reply: Deferred[_OrNone] = Deferred(applied=False)
        self._verifier.verify(questions).then(partial(self._verified, reply))
        return reply

    def _refuse_all(self, error: KafkaError) -> ProduceResponse:
        return self._maker.response({key: explained(key[1], error) for key in self._entries})

    def _in_transaction(self) -> dict[Key, memoryview]:
        """Return the records of transactions whose append may be verified."""
        found = {}
        for key, records in self._entries.items():
            if records is None or key in self._answers or not _is_in_transaction(records):
                continue
            # As in Kafka, records that are not one batch come first. The validation will refuse them, too.
            with contextlib.suppress(KafkaError):
                size_of_one_batch(records, self._version)
                found[key] = records
        return found

    def _begin_verification(self, in_transaction: Mapping[Key, memoryview]) -> Question | None:
        """Return the question for the coordinator of the transaction, None if no partition needs an answer."""
        asked: list[TopicPartition] = []
        producer_id = producer_epoch = NO_EPOCH
        for key, records in in_transaction.items():
            if not self._verifier.is_enabled():
                self._how[key] = TransactionalAppend(guard=UNVERIFIED)
                continue
            producer_id, producer_epoch, sequence = _PRODUCER_AND_SEQUENCE.unpack_from(records, _PRODUCER.start)
            partition, now_ms = self._replicas.partitions[key], self._clock.now_ms()
            try:
                guard = partition.start_verification(producer_id, sequence, producer_epoch, False, now_ms)
            except KafkaError as error:
                self._answers[key] = failed(key[1], error.code)
                continue
            self._how[key] = TransactionalAppend(guard=guard)
            if guard is not None:
                asked.append(TopicPartition(*key))
        if not asked:
            return None
        assert self._transactional_id is not None
        return Question(self._transactional_id, producer_id, producer_epoch, asked)

    def _verified(self, reply: Deferred[_OrNone], errors: Errors) -> None:
        """Append where the coordinator found the partition in the transaction."""
        for key, code in errors.items():
            if code is not ErrorCode.NONE:
                self._answers[key] = _unverified(key[1], code, self._version)
        try:
            self._pass_on(self._go_on(), reply)
        except CloseConnection as reason:
            reply.close(reason)
        except Exception:
            self._end_after_bug(reply)

    def _go_on(self) -> _Response:
        """Validate and append what is not answered yet."""
        left = [(key, records) for key, records in self._entries.items() if key not in self._answers]
        now_ms = self._clock.now_ms()
        plans: dict[Key, _ToValidate] = {}
        for key, records in left:
            partition = self._replicas.partitions.get(key)
            refusal = self._refusal_of_sound_records(*key)
            if refusal is not None:
                self._answers[key] = refusal
            elif partition is None:
                # It went away while the coordinator was asked.
                self._answers[key] = failed(key[1], ErrorCode.NOT_LEADER_OR_FOLLOWER)
            else:
                plans[key] = (records, self._version, partition.rules, now_ms)
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
        return self._append({key: _validated(*plan) for key, plan in plans.items()})

    def _refusal(self, key: Key, records: memoryview | None) -> PartitionProduceResponse | None:
        """Return an error that needs no validation of the records, only that they are one batch; else None."""
        topic, index = key
        not_here: PartitionProduceResponse | None = None
        try:
            self._replicas.partition(topic, index)
        except KafkaError as error:
            not_here = failed(index, error.code)
            if error.code == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION:
                return not_here
        answer = self._refusal_of_sound_records(topic, index) or not_here
        if answer is not None:
            try:
                size_of_one_batch(records, self._version)
            except UnreadableStartError as error:
                return explained(index, error)
            except KafkaError as error:
                # As in Kafka, this error comes first.
                return failed(index, error.code)
            if records is not None and _is_in_transaction(records):
                # As in Kafka, `acks` and internal topics are refused after the verification.
                return not_here
        return answer

    def _refusal_of_sound_records(self, topic: str, index: int) -> PartitionProduceResponse | None:
        if not -1 <= self._acks <= 1:
            return failed(index, ErrorCode.INVALID_REQUIRED_ACKS)
        if topic in _INTERNAL_TOPICS and not self._from_admin:
            return failed(index, ErrorCode.INVALID_TOPIC_EXCEPTION)
        return None

    async def _run_off_loop(
        self, plans: Mapping[Key, _ToValidate], slow: Container[Key], deferred: Deferred[_OrNone]
    ) -> None:
        """Validate slow batches in a worker thread, one after the other, then append."""
        try:
            batches = {}
            for key, plan in plans.items():
                batches[key] = await self._offload(_validated, *plan) if key in slow else _validated(*plan)
            response = self._append(batches)
        except CloseConnection as reason:
            deferred.close(reason)
            return
        except Exception:
            self._end_after_bug(deferred)
            return
        self._pass_on(response, deferred)

    def _end_after_bug(self, deferred: Deferred[_OrNone]) -> None:
        logger.exception("A bug: Produce failed, the client gets UNKNOWN_SERVER_ERROR, or with acks=0 is disconnected")
        if self._acks:
            answers = {key: failed(key[1], ErrorCode.UNKNOWN_SERVER_ERROR) for key in self._entries}
            deferred.complete(self._maker.response(answers))
        else:
            deferred.close(CloseConnection("Produce with acks=0 failed"))

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
                self._answers[key] = failed(key[1], ErrorCode.NOT_LEADER_OR_FOLLOWER)
            elif isinstance(batch, KafkaError):
                self._answers[key] = refused(key[1], batch, partition)
            else:
                entries.append((partition, batch))
        if any(partition.log.pace.is_slow for partition, _ in entries):
            return self._append_slowly(entries)
        now_ms = self._clock.now_ms()
        results: list[LogAppendInfo | KafkaError] = []
        for partition, produced in entries:
            try:
                how = self._how.get(partition.topic_partition)
                results.append(replicas.append(partition, produced, self._acks, now_ms, how))
            except KafkaError as error:
                results.append(error)
        return self._answer(entries, results)

    def _append_slowly(self, entries: Sequence[_Entry]) -> Deferred[_OrNone]:
        """Queue the append. The connection is muted, whatever `acks` is, because that bounds the queued records."""
        deferred: Deferred[_OrNone] = Deferred(applied=False)

        def done(results: Sequence[LogAppendInfo | KafkaError]) -> None:
            try:
                self._pass_on(self._answer(entries, results), deferred)
            except CloseConnection as reason:
                deferred.close(reason)
            except Exception:
                deferred.close(CloseConnection("a bug: Produce failed"))
                raise

        self._slow_appends.append_all(entries, self._acks, done, self._how)
        return deferred

    def _answer(
        self, entries: Sequence[_Entry], results: Sequence[LogAppendInfo | KafkaError]
    ) -> ProduceResponse | Deferred[ProduceResponse]:
        """Return the response for all partitions, in the order of the request."""
        waiting = []
        for (partition, _), result in zip(entries, results, strict=True):
            topic, index = partition.topic_partition
            if isinstance(result, KafkaError):
                self._answers[topic, index] = refused(index, result, partition)
            else:
                self._answers[topic, index] = appended(index, result)
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


def _check_transactional_id(entries: Iterable[object], transactional_id: str | None) -> None:
    """Raise KafkaError unless records of a transaction come with its id.

    Raise UnreadableStartError for records before them that do not begin with a batch.
    """
    for records in entries:
        if isinstance(records, memoryview):
            if not _is_transactional(records):
                check_start(records)
            elif transactional_id is None:
                raise KafkaError(ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED, "transactional records without an id")
            else:
                return
