from collections.abc import Sequence
from typing import Annotated

import pytest

from ottla.wire.schema import DEFAULT, ArrayOf, Message, Struct, StructOf, V, fields, same_value
from ottla.wire.types import Int32, Records, String, TopicPartition, VersionRange
from tests.wire.sample_messages import Everything, Leaf, Nothing, Point


class Named(Struct, kafka_name="Other"):
    topic_id: Int32
    isr: Annotated[Sequence[Int32], V(kafka_name="ISR")] = ()
    maybe: Annotated[String | None, V("2+", nullable="3+")] = None
    records: Annotated[Records, V(nullable="0+")] = None


@pytest.mark.parametrize(
    ("text", "inside", "outside"),
    [
        ("3", [3], [2, 4]),
        ("0-4", [0, 4], [5, -1]),
        ("2+", [2, 32767], [1]),
        ("none", [], [0, 1, -1]),
    ],
)
def test_a_version_range_is_written_as_in_kafkas_specifications(
    text: str, inside: list[int], outside: list[int]
) -> None:
    versions = VersionRange.parse(text)
    assert all(version in versions for version in inside)
    assert not any(version in versions for version in outside)
    assert str(versions) == text


def test_a_version_range_yields_its_versions() -> None:
    assert list(VersionRange.parse("2-4")) == [2, 3, 4]
    assert list(VersionRange.parse("none")) == []
    assert VersionRange.parse("3") == VersionRange.parse("3-3")


def test_a_topic_partition_is_written_as_kafka_does() -> None:
    assert str(TopicPartition("topic", 3)) == "topic-3"


def test_a_declaration_resolves_to_its_fields_in_order() -> None:
    topic_id, isr, maybe, records = fields(Named)
    assert Named.kafka_name == "Other"
    assert Point.kafka_name == "Point"
    assert [field.kafka_name for field in fields(Named)] == ["TopicId", "ISR", "Maybe", "Records"]
    assert (topic_id.required, topic_id.default, topic_id.type.kafka_name) == (True, 0, "int32")
    assert isinstance(isr.type, ArrayOf)
    assert isr.type.kafka_name == "[]int32"
    assert (maybe.versions, maybe.nullable) == (VersionRange.parse("2+"), VersionRange.parse("3+"))
    assert (maybe.default, maybe.required) == (None, False)
    assert 0 in records.nullable


def test_a_struct_resolves_as_a_type() -> None:
    by_name = {field.name: field for field in fields(Everything)}
    assert isinstance(by_name["leaf"].type, StructOf)
    assert by_name["leaf"].type.struct is Leaf
    assert by_name["leaves"].type.kafka_name == "[]Leaf"


def test_a_field_with_a_tag_is_tagged_in_its_versions() -> None:
    by_name = {field.name: field for field in fields(Everything)}
    assert [by_name["late_tag"].is_tagged(version) for version in (2, 3)] == [False, True]
    assert [by_name["tagged_number"].is_tagged(version) for version in (1, 2)] == [False, True]
    assert not by_name["leaf"].is_tagged(4)


def test_the_constructor_takes_keywords_and_knows_defaults() -> None:
    named = Named(topic_id=4, isr=[1])
    assert (named.topic_id, named.isr, named.maybe) == (4, [1], None)
    with pytest.raises(TypeError, match="topic_id"):
        Named(isr=[1])  # type: ignore[call-arg]
    with pytest.raises(TypeError, match="unknown"):
        Named(topic_id=4, unknown=5)  # type: ignore[call-arg]
    with pytest.raises(TypeError):
        Named(4)  # type: ignore[call-arg]


def test_a_message_has_slots_only() -> None:
    with pytest.raises(AttributeError):
        Named(topic_id=4).unknown = 5  # type: ignore[attr-defined]


def test_all_defaults_can_be_taken_without_a_keyword() -> None:
    assert Point() == Point(x=-1, y=-2, label="")
    assert Point(x=5).y == -2
    assert Nothing() == Nothing()


def test_a_struct_as_default_has_its_own_defaults() -> None:
    assert next(field for field in fields(Everything) if field.name == "tagged_point").default == Point()

    class Outer(Struct):
        point: Point = DEFAULT

    assert Outer() == Outer(point=Point())


def test_equality_looks_at_every_field_and_at_the_type() -> None:
    assert Named(topic_id=1) == Named(topic_id=1, isr=())
    assert Named(topic_id=1, isr=[1, 2]) == Named(topic_id=1, isr=(1, 2))
    assert Named(topic_id=1, isr=[1, 2]) != Named(topic_id=1, isr=[2, 1])
    assert Named(topic_id=1) != Named(topic_id=2)
    assert Named(topic_id=1) != 1
    assert Named(topic_id=1, records=b"ab") == Named(topic_id=1, records=memoryview(b"ab"))
    assert not same_value((), None)


def test_the_representation_names_the_fields_and_hides_long_bytes() -> None:
    assert repr(Named(topic_id=1, records=b"abc")) == "Named(topic_id=1, isr=(), maybe=None, records=<3 bytes>)"


def test_messages_carry_their_versions() -> None:
    assert Everything.versions == VersionRange.parse("0-4")
    assert Everything.flexible == VersionRange.parse("2+")


def test_a_declaration_whose_nullability_contradicts_itself_is_refused() -> None:
    class Wrong(Struct):
        name: Annotated[String, V(nullable="0+")]

    with pytest.raises(TypeError, match="nullable"):
        fields(Wrong)


def test_a_type_outside_the_protocol_is_refused() -> None:
    class Wrong(Struct):
        name: dict[str, int]

    with pytest.raises(TypeError, match="not a type of the protocol"):
        fields(Wrong)


def test_every_message_has_encode_and_decode() -> None:
    assert Nothing().encode(1) == b"\0"
    assert Nothing.decode(b"\0", 1) == Nothing()
    assert Message.versions == VersionRange.parse("0+")
