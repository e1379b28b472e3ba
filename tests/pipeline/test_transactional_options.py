"""What a transactional writer is told, and what of its records it keeps, without Spark and Kafka."""

import pytest

from ottla.pipeline import transactional_write
from ottla.pipeline.transactional_write import Record


class Client:
    """A producer that answers when it is waited for."""

    config = {"delivery_timeout_ms": 1000}  # noqa: RUF012

    def __init__(self) -> None:
        self.waiting = self.most = 0

    def send(self, *_: object) -> "Client":
        self.waiting += 1
        self.most = max(self.most, self.waiting)
        return self

    def flush(self, _: float) -> None:
        self.waiting = 0

    def get(self, _: float) -> None:
        """It is there."""


@pytest.mark.parametrize(
    ("record", "most"),
    [
        (Record("t", None, None), 20_000),
        (Record("t", b"k", b"v"), 20_000),
        (Record("t", b"k", b"v", [("h", b"x" * 10_000)]), 1000),
    ],
)
def test_not_many_records_wait_for_the_broker_however_small_they_are(record: Record, most: int) -> None:
    client = Client()
    assert transactional_write._send_all(client, (record for _ in range(50_000))) == 50_000
    assert client.most < most
