"""Records of internal topics: declared as Kafka specifies them, decoded as its tools print them."""

import base64
import json
import os
import zipfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from compat_tests.support import jars
from ottla.wire.errors import DecodeError
from ottla.wire.internal import group_records, transaction_records
from ottla.wire.internal.group_records import GroupMetadataValue, MemberMetadata, RecordType
from ottla.wire.internal.internal_records import UnknownRecordTypeError, decode_group_record, decode_transaction_record
from tests.wire.kafka_specification import FOLDER, FieldAt, Specification
from tests.wire.test_oracle_specification import declared_at

KEY = bytes.fromhex("0000000474782d61")
ONGOING = bytes.fromhex(
    "00010000000000000003000100 00ea6001020374310200000002 00000001a1f5b95612000001a1f5b95612 02000800000000000000"
    "03 02020002".replace(" ", "")
)


def specifications(artifact: str) -> list[Specification]:
    """Return the messages in a jar that Kafka 4.3's broker comes with."""
    paths = map(Path, jars.classpath(jars.BROKER).split(os.pathsep))
    found = []
    with zipfile.ZipFile(next(path for path in paths if path.name.startswith(artifact))) as archive:
        for name in archive.namelist():
            if name.startswith(FOLDER) and name.endswith(".json"):
                lines = archive.read(name).decode().splitlines()
                raw = json.loads("\n".join(line for line in lines if not line.lstrip().startswith("//")))
                for field in raw["fields"]:
                    # A field without `versions` exists in its `taggedVersions`.
                    field.setdefault("versions", field.get("taggedVersions"))
                found.append(Specification(raw))
    return found


def shape(fields: tuple[FieldAt, ...]) -> tuple[Any, ...]:
    """Return fields without the names of their structs, some of which are shared here."""
    return tuple(
        each._replace(type="[]" * each.type.startswith("[]") + "struct" if each.fields else each.type, fields=())
        if not each.fields
        else (each._replace(type="struct", fields=()), each.type.startswith("[]"), shape(each.fields))
        for each in fields
    )


@pytest.mark.parametrize(
    ("artifact", "types"),
    [
        ("kafka-group-coordinator-4", group_records.RECORD_TYPES),
        ("kafka-transaction-coordinator-4", transaction_records.RECORD_TYPES),
    ],
)
def test_every_field_of_every_version_is_as_kafka_specifies_it(artifact: str, types: Mapping[int, RecordType]) -> None:
    found = specifications(artifact)
    assert {each.api_key for each in found} == set(types)
    for each in found:
        declared = types[each.api_key or 0]
        message = declared.key if each.kind == "coordinator-key" else declared.value
        assert message.versions == each.versions, each.name
        for version in each.versions:
            assert (version in message.flexible) == (version in each.flexible), each.name
            assert shape(tuple(declared_at(message, message, version))) == shape(each.fields_at(version)), each.name


def test_an_open_transaction_is_decoded_with_its_tagged_fields() -> None:
    found = decode_transaction_record(KEY, ONGOING)
    assert (found.type, found.key, found.version) == (0, {"transactionalId": "tx-a"}, 1)
    assert found.value == {
        "producerId": 3,
        "previousProducerId": 3,
        "producerEpoch": 1,
        "transactionTimeoutMs": 60000,
        "transactionStatus": 1,
        "transactionPartitions": [{"topic": "t1", "partitionIds": [2]}],
        "transactionLastUpdateTimestampMs": 1795123926546,
        "transactionStartTimestampMs": 1795123926546,
        "clientTransactionVersion": 2,
    }


def test_a_tombstone_has_no_value() -> None:
    assert decode_transaction_record(KEY, None)[2:] == (None, None)


def group(subscription: bytes, protocol_type: str = "consumer") -> dict[str, Any]:
    """Return the member of a group as it is decoded."""
    member = MemberMetadata(
        member_id="m", client_id="c", client_host="/h", session_timeout=1, subscription=subscription, assignment=b""
    )
    value = GroupMetadataValue(protocol_type=protocol_type, generation=1, protocol="p", leader="m", members=[member])
    found = decode_group_record(b"\0\2\0\1g", b"\0\3" + value.encode(3))
    assert found.value is not None
    shown: dict[str, Any] = found.value["members"][0]
    return shown


def test_the_subscription_of_a_consumer_is_decoded() -> None:
    assert group(b"\0\0\0\0\0\1\0\1t\xff\xff\xff\xff")["subscription"] == {"topics": ["t"], "userData": None}


@pytest.mark.parametrize(("subscription", "protocol_type"), [(b"\0\0\x7f", "consumer"), (b"\0\0\0\0\0\0", "connect")])
def test_other_subscriptions_stay_bytes(subscription: bytes, protocol_type: str) -> None:
    assert group(subscription, protocol_type)["subscription"] == base64.b64encode(subscription).decode()


def test_an_unknown_record_type_is_named() -> None:
    with pytest.raises(UnknownRecordTypeError) as caught:
        decode_group_record(b"\0\x63", b"")
    assert caught.value.number == 99


@pytest.mark.parametrize(
    ("key", "value", "reason"),
    [
        (b"\0", None, "Could not read version from key's buffer."),
        (b"\0\1\0\5", None, "Could not read record with version 0 from key's buffer"),
        (b"\0\2\0\1g", b"", "Could not read version from value's buffer."),
        (b"\0\2\0\1g", b"\0\7", "Could not read record with version 7 from value's buffer"),
    ],
)
def test_malformed_records_are_refused_with_a_reason(key: bytes, value: bytes | None, reason: str) -> None:
    with pytest.raises(DecodeError, match=reason):
        decode_group_record(key, value)
