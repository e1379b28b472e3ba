"""The error codes are Kafka's, and the exceptions show them."""

from collections.abc import Iterator

import pytest

from ottla.wire.errors import ErrorCode, KafkaError
from tests.wire.java_oracle import JavaOracle
from tests.wire.kafka_specification import RELEASES


@pytest.fixture(scope="module")
def kafka() -> Iterator[JavaOracle]:
    with JavaOracle(RELEASES[-1]) as oracle:
        yield oracle


@pytest.mark.slow
def test_every_code_has_kafkas_name(kafka: JavaOracle) -> None:
    for code in ErrorCode:
        assert kafka.error(code) == code.name


@pytest.mark.slow
def test_no_code_of_kafka_is_missing(kafka: JavaOracle) -> None:
    ours = {int(code) for code in ErrorCode}
    for code in range(-10, 1000):
        known = kafka.error(code) != ErrorCode.UNKNOWN_SERVER_ERROR.name or code == ErrorCode.UNKNOWN_SERVER_ERROR
        assert known == (code in ours), code


def test_an_error_is_shown_by_its_name_and_its_detail() -> None:
    assert str(KafkaError(ErrorCode.INVALID_RECORD, "a key is needed")) == "INVALID_RECORD: a key is needed"
    assert str(KafkaError(ErrorCode.INVALID_RECORD)) == "INVALID_RECORD"
