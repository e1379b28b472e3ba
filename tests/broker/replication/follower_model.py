"""A model of followers' logs, for tests of what followers decide."""

from typing import NamedTuple

from ottla.broker.replication.decisions import FetchSettings
from ottla.wire.messages.fetch import FetchableTopicResponse, FetchResponse, PartitionData
from ottla.wire.types import TopicPartition

ID = b"\1" * 16
HERE = TopicPartition("t", 0)
BACKOFF = 1.0
SETTINGS = FetchSettings(1, 17, 9, 500, 1, 10_000, 1000, BACKOFF)


class ModelEpochs(NamedTuple):
    latest: int


class ModelLog:
    """A log whose records are the epochs that wrote them and a byte each."""

    def __init__(self, *epochs: int, start: int = 0) -> None:
        self.topic_id: bytes | None = ID
        self.log_start_offset = start
        self.records: list[tuple[int, int]] = []
        self.epochs: list[tuple[int, int]] = []
        self.first = start
        for epoch in epochs:
            self.append(epoch, 0)

    @property
    def log_end_offset(self) -> int:
        return self.first + len(self.records)

    @property
    def leader_epochs(self) -> ModelEpochs:
        return ModelEpochs(self.epochs[-1][0] if self.epochs else -1)

    def begin(self, epoch: int) -> None:
        if self.leader_epochs.latest < epoch:
            self.epochs = [each for each in self.epochs if each[1] < self.log_end_offset]
            self.epochs.append((epoch, self.log_end_offset))

    def append(self, epoch: int, value: int) -> None:
        self.begin(epoch)
        self.records.append((epoch, value))

    def truncate(self, offset: int) -> None:
        del self.records[max(0, offset - self.first) :]
        self.epochs = [each for each in self.epochs if each[1] < self.log_end_offset]

    def end_offset_for_epoch(self, epoch: int) -> tuple[int, int]:
        if epoch == self.leader_epochs.latest and epoch >= 0:
            return epoch, self.log_end_offset
        above = [each for each in self.epochs if each[0] > epoch]
        if epoch < 0 or not above:
            return -1, -1
        upto = [each for each in self.epochs if each[0] <= epoch]
        return upto[-1][0] if upto else epoch, above[0][1]


def fetched(**data: object) -> FetchResponse:
    given = {"error_code": 0, "high_watermark": -1, "records": b"", "log_start_offset": 0} | data
    answer = PartitionData(partition_index=0, **given)  # type: ignore[arg-type]
    return FetchResponse(responses=[FetchableTopicResponse(topic_id=ID, partitions=[answer])])
