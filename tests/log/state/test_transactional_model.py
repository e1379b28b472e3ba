"""The producers of a log against a model that looks through all that was appended, with transactions of both kinds."""

import random
from collections.abc import Iterable
from pathlib import Path
from typing import Final, NamedTuple

import pytest

from ottla.log.segments.transaction_index import AbortedTransaction
from ottla.log.state.producer_entry import BatchMetadata
from ottla.log.state.producer_state import ProducerState
from ottla.log.state.verification import UNVERIFIED, AppendOrigin, TransactionalAppend, VerificationGuard
from ottla.wire.errors import ErrorCode, KafkaError
from ottla.wire.records.batch import BatchHeader, ControlType, ProducedBatch, end_transaction_marker
from tests.log.building import NOW_MS, marker, produced

pytestmark = pytest.mark.once

PRODUCERS: Final = range(4)
# The last one's offsets are committed by its group's coordinator.
ORIGINS: Final = [AppendOrigin.CLIENT] * 3 + [AppendOrigin.COORDINATOR]
EXPIRATION_MS: Final = 1000
SEQUENCE: Final = ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER
EPOCH: Final = ErrorCode.INVALID_PRODUCER_EPOCH
STATE: Final = ErrorCode.INVALID_TXN_STATE


class Appended(NamedTuple):
    """A batch in the log."""

    batch: ProducedBatch
    offset: int

    @property
    def header(self) -> BatchHeader:
        return self.batch.header

    @property
    def end(self) -> int:
        return self.offset + self.header.last_offset_delta + 1


class Asked:
    """A verification that has begun."""

    def __init__(self, guard: VerificationGuard, sequence: int, epoch: int, bumps: bool, now_ms: int) -> None:
        self.guard = guard
        self.asks = [(epoch, sequence)]
        self.bumps = bumps
        self.now_ms = now_ms

    @property
    def epoch(self) -> int:
        return max(epoch for epoch, _ in self.asks)

    @property
    def lowest(self) -> int:
        return min(sequence for epoch, sequence in self.asks if epoch == self.epoch)


class Model:
    """All batches of producers that did not expire, and the verifications that have begun."""

    def __init__(self) -> None:
        self.log: list[Appended] = []
        self.asked: dict[int, Asked] = {}

    def of(self, producer_id: int) -> list[Appended]:
        return [each for each in self.log if each.header.producer_id == producer_id]

    def epoch(self, producer_id: int) -> int:
        return max((each.header.producer_epoch for each in self.of(producer_id)), default=-1)

    def batches(self, producer_id: int) -> list[Appended]:
        """Data of the last epoch."""
        epoch = self.epoch(producer_id)
        found = [each for each in self.of(producer_id) if not each.header.is_control]
        return [each for each in found if each.header.producer_epoch == epoch]

    def open_since(self, producer_id: int) -> int | None:
        since = None
        for each in self.of(producer_id):
            if each.header.is_control:
                since = None
            elif each.header.is_transactional and since is None:
                since = each.offset
        return since

    def coordinator_epoch(self, producer_id: int) -> int:
        markers = [each for each in self.of(producer_id) if each.header.is_control]
        return end_transaction_marker(markers[-1].batch.data).coordinator_epoch if markers else -1

    def outcome(self, header: BatchHeader, how: TransactionalAppend) -> int | ErrorCode | None:
        """The offset of the batch for a duplicate, an error, or None."""
        producer_id, first = header.producer_id, header.base_sequence
        known, is_open = self.batches(producer_id), self.open_since(producer_id) is not None
        is_clients = how.origin is AppendOrigin.CLIENT
        for each in known[-5:] if is_clients else ():
            if each.header.producer_epoch == header.producer_epoch and each.header[11:] == header[11:]:
                return each.offset
        if header.producer_epoch < self.epoch(producer_id):
            return EPOCH
        is_new = header.producer_epoch != self.epoch(producer_id)
        asked = self.asked.get(producer_id)
        goes_on = is_open and not is_new
        wanted = UNVERIFIED if asked is None else asked.guard
        if header.is_transactional and not goes_on and how.guard not in (UNVERIFIED, wanted):
            return STATE
        if is_clients:
            if asked is not None and (first > asked.lowest or (asked.bumps and first and not known)):
                return SEQUENCE
            if self.of(producer_id) and first != (0 if is_new or not known else known[-1].header.last_sequence + 1):
                return SEQUENCE
        return STATE if is_open and not header.is_transactional else None

    def outcome_of_marker(self, header: BatchHeader, coordinator_epoch: int, version: int) -> ErrorCode | None:
        producer_id, epoch = header.producer_id, header.producer_epoch
        is_too_low = epoch <= self.epoch(producer_id) if version == 2 else epoch < self.epoch(producer_id)
        is_repeated = version == 2 and epoch == self.epoch(producer_id) and self.open_since(producer_id) is None
        if is_too_low and not is_repeated:
            return EPOCH
        is_fenced = coordinator_epoch < self.coordinator_epoch(producer_id)
        return ErrorCode.TRANSACTION_COORDINATOR_FENCED if is_fenced else None

    def add(self, appended: Appended) -> None:
        self.log.append(appended)
        header = appended.header
        asked = self.asked.get(header.producer_id)
        if asked is None or not header.is_transactional:
            return
        if not (asked.bumps and header.is_control and asked.epoch == header.producer_epoch):
            del self.asked[header.producer_id]

    def expire(self, now_ms: int) -> None:
        for producer_id in PRODUCERS:
            batches = self.of(producer_id)
            is_silent = batches and now_ms - batches[-1].batch.max_timestamp >= EXPIRATION_MS
            if is_silent and self.open_since(producer_id) is None:
                self.log = [each for each in self.log if each not in batches]

    def expire_guards(self, now_ms: int) -> None:
        self.asked = {pid: each for pid, each in self.asked.items() if now_ms - each.now_ms < EXPIRATION_MS}


class Trial:
    def __init__(self, directory: Path, choose: random.Random) -> None:
        self.directory = directory
        self.choose = choose
        self.state = ProducerState(directory, EXPIRATION_MS)
        self.model = Model()
        self.guards: list[VerificationGuard | None] = [None, None, UNVERIFIED]
        self.high_watermark = 0
        self.closed: list[tuple[int, int]] = []
        """First offset and marker of each ended transaction."""
        self.now_ms = NOW_MS
        self.outcomes: set[ErrorCode | None] = set()

    @property
    def end(self) -> int:
        return self.state.end_offset

    def headers_before(self, offset: int) -> Iterable[BatchHeader]:
        return [each.header._replace(base_offset=each.offset) for each in self.model.log if each.offset < offset]

    def epoch(self, producer_id: int) -> int:
        return max(0, self.model.epoch(producer_id) + self.choose.choice([0] * 8 + [1, -1]))

    def sequence(self, producer_id: int, epoch: int) -> int:
        known = self.model.batches(producer_id)
        following = known[-1].header.last_sequence + 1 if known and epoch == self.model.epoch(producer_id) else 0
        return self.choose.choice([following] * 6 + [0, following + 1, max(0, following - 1)])

    def ask(self) -> None:
        producer_id = self.choose.choice(PRODUCERS)
        epoch = self.epoch(producer_id)
        sequence, bumps = self.sequence(producer_id, epoch), self.choose.random() < 0.5
        goes_on = self.model.open_since(producer_id) is not None and epoch == self.model.epoch(producer_id)
        if epoch < self.model.epoch(producer_id):
            with pytest.raises(KafkaError) as refused:
                self.state.start_verification(producer_id, sequence, epoch, bumps, self.now_ms)
            assert refused.value.code is EPOCH
            return
        guard = self.state.start_verification(producer_id, sequence, epoch, bumps, self.now_ms)
        assert (guard is None) == goes_on
        if guard is None:
            return
        asked = self.model.asked.get(producer_id)
        if asked is None:
            assert guard not in self.guards
            self.model.asked[producer_id] = Asked(guard, sequence, epoch, bumps, self.now_ms)
            self.guards.append(guard)
        else:
            assert guard is asked.guard
            asked.asks.append((epoch, sequence))

    def append(self) -> None:
        producer_id = self.choose.choice(PRODUCERS)
        epoch = self.epoch(producer_id)
        if self.model.batches(producer_id) and self.choose.random() < 0.1:
            batch = self.choose.choice(self.model.batches(producer_id)[-6:]).batch
        else:
            batch = produced(
                self.choose.randint(1, 3),
                producer_id=producer_id,
                epoch=epoch,
                sequence=self.sequence(producer_id, epoch),
                transactional=self.choose.random() < 0.8,
                timestamp=self.now_ms,
            )
        asked = self.model.asked.get(producer_id)
        current: list[VerificationGuard | None] = [asked.guard] * 20 if asked else []
        how = TransactionalAppend(ORIGINS[producer_id], self.choose.choice(self.guards + current))
        expected = self.model.outcome(batch.header, how)
        found: BatchMetadata | None = None
        try:
            found = self.state.check(batch.header, self.headers_before, how)
            outcome: int | ErrorCode | None = None if found is None else found.first_offset
        except KafkaError as error:
            outcome = error.code
        assert outcome == expected
        if outcome is None:
            self.state.update(batch.header, self.end, batch.max_timestamp)
            self.add(batch)
        if outcome is None or isinstance(outcome, ErrorCode):
            self.outcomes.add(outcome)

    def mark(self) -> None:
        producer_id = self.choose.choice(PRODUCERS)
        version = self.choose.choice([0, 2])
        epoch = self.epoch(producer_id) + (version == 2 and self.choose.random() < 0.8)
        kind = self.choose.choice([ControlType.COMMIT, ControlType.ABORT])
        coordinator_epoch = max(0, self.model.coordinator_epoch(producer_id) + self.choose.choice([0, 0, 0, 1, -1]))
        batch = marker(producer_id, kind, epoch=epoch, coordinator_epoch=coordinator_epoch, timestamp=self.now_ms)
        expected = self.model.outcome_of_marker(batch.header, coordinator_epoch, version)
        try:
            self.state.check_marker(batch.header, batch.data, version)
            outcome = None
        except KafkaError as error:
            outcome = error.code
        assert outcome == expected
        self.outcomes.add(outcome)
        if outcome is None:
            since, offset = self.model.open_since(producer_id), self.end
            aborted = self.state.end_transaction(batch.header, batch.data, offset)
            if since is not None:
                self.closed.append((since, offset))
            self.add(batch)
            if since is None or kind is ControlType.COMMIT:
                assert aborted is None
            else:
                stable = min((each for each in map(self.model.open_since, PRODUCERS) if each is not None), default=None)
                end = offset + 1 if stable is None else stable
                assert aborted == AbortedTransaction(producer_id, since, offset, end)

    def add(self, batch: ProducedBatch) -> None:
        self.model.add(Appended(batch, self.end))
        self.state.end_offset += batch.header.last_offset_delta + 1

    def replicate(self) -> None:
        self.high_watermark = self.choose.randint(self.high_watermark, self.end)

    def wait(self) -> None:
        self.now_ms += self.choose.choice([1, 100, 400])
        self.state.remove_expired(self.now_ms)
        self.model.expire(self.now_ms)
        self.model.expire_guards(self.now_ms)

    def restart(self) -> None:
        """Guards do not outlive the process, and what was appended is replicated."""
        self.state.take_snapshot(sync=False)
        self.high_watermark, end = self.end, self.end
        self.state = ProducerState(self.directory, EXPIRATION_MS)
        self.state.truncate_and_reload(0, end, self.now_ms)
        assert self.end == end
        self.model.asked.clear()
        self.model.expire(self.now_ms)

    def check(self) -> None:
        is_open = {each: self.model.open_since(each) for each in PRODUCERS}
        unstable = [each for each in is_open.values() if each is not None]
        unstable += [first for first, at in self.closed if at >= self.high_watermark]
        assert self.state.first_unstable_offset(self.high_watermark) == min(unstable, default=None)
        found = {
            each.producer_id: (each.producer_epoch, each.coordinator_epoch, each.current_txn_first_offset)
            for each in self.state.entries.values()
        }
        assert found == {
            each: (self.model.epoch(each), self.model.coordinator_epoch(each), -1 if since is None else since)
            for each, since in is_open.items()
            if self.model.of(each)
        }


@pytest.mark.trials(few=30, soak=2000)
def test_appends_in_transactions_are_answered_as_by_the_model(tmp_path: Path, trials: int, seed: int) -> None:
    outcomes: set[ErrorCode | None] = set()
    for number in range(trials):
        directory = tmp_path / str(number)
        directory.mkdir()
        trial = Trial(directory, random.Random(f"{seed} {number}"))
        deeds = [trial.append] * 12 + [trial.ask] * 6 + [trial.mark] * 4 + [trial.replicate, trial.wait, trial.restart]
        for _ in range(200):
            trial.choose.choice(deeds)()
            trial.check()
        outcomes |= trial.outcomes
    assert outcomes == {None, SEQUENCE, EPOCH, STATE, ErrorCode.TRANSACTION_COORDINATOR_FENCED}
