import uuid

import pytest

from ottla.wire.uuids import parse_uuid, uuid_text


def test_a_uuid_is_written_as_kafka_writes_it() -> None:
    assert uuid_text(bytes(15) + b"\1") == "AAAAAAAAAAAAAAAAAAAAAQ"


def test_a_written_uuid_is_read_unchanged() -> None:
    raw = uuid.uuid4().bytes
    assert parse_uuid(uuid_text(raw)) == raw


@pytest.mark.parametrize("text", ["", "AAAA", "A" * 30])
def test_a_uuid_of_another_size_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match="is no uuid"):
        parse_uuid(text)
