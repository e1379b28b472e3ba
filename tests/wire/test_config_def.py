"""Values are read, checked and written as Kafka's ConfigDef does."""

import contextlib

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ottla.wire.config_def import (
    Between,
    Check,
    ConfigDef,
    ConfigError,
    ConfigKey,
    ConfigType,
    OneOf,
    Password,
    at_least,
    nearest,
    parse_type,
    render,
)


class Example:
    """A configuration with one key as an attribute."""

    def __init__(self, values: dict[str, int]) -> None:
        self.values = values

    num_partitions = ConfigKey("num.partitions", ConfigType.INT, 1, at_least(1))


GOOD = [
    (ConfigType.BOOLEAN, " TRUE ", True),
    (ConfigType.BOOLEAN, "false", False),
    (ConfigType.INT, " -2147483648", -(2**31)),
    (ConfigType.INT, "+7", 7),
    (ConfigType.INT, "007", 7),
    (ConfigType.SHORT, "32767", 32767),
    (ConfigType.LONG, "9223372036854775807", 2**63 - 1),
    (ConfigType.DOUBLE, "0.5", 0.5),
    (ConfigType.DOUBLE, "1.7976931348623157E308", 1.7976931348623157e308),
    (ConfigType.DOUBLE, "2d", 2.0),
    (ConfigType.DOUBLE, "-Infinity", float("-inf")),
    (ConfigType.STRING, "  a b ", "a b"),
    (ConfigType.CLASS, "java.lang.String", "java.lang.String"),
    (ConfigType.LIST, "a , b,c", ("a", "b", "c")),
    (ConfigType.LIST, "a,", ("a", "")),
    (ConfigType.LIST, " ", ()),
    (ConfigType.PASSWORD, "secret ", Password("secret")),
]
BAD = [
    (ConfigType.BOOLEAN, "yes", "Expected value to be either true or false"),
    (ConfigType.INT, "1_000", "Not a number of type INT"),
    (ConfigType.INT, "2147483648", "Not a number of type INT"),
    (ConfigType.INT, "1.0", "Not a number of type INT"),
    (ConfigType.INT, "", "Not a number of type INT"),
    (ConfigType.INT, "9" * 5000, "Not a number of type INT"),
    (ConfigType.SHORT, "32768", "Not a number of type SHORT"),
    (ConfigType.LONG, "9223372036854775808", "Not a number of type LONG"),
    (ConfigType.DOUBLE, "inf", "Not a number of type DOUBLE"),
    (ConfigType.DOUBLE, "1_0.0", "Not a number of type DOUBLE"),
]


@pytest.mark.parametrize(("kind", "text", "value"), GOOD)
def test_text_is_parsed_as_kafka_parses_it(kind: ConfigType, text: str, value: object) -> None:
    parsed = parse_type("x", text, kind)
    assert parsed == value
    assert type(parsed) is type(value)


@pytest.mark.parametrize(("kind", "text", "reason"), BAD)
def test_text_of_another_type_is_refused_in_kafkas_words(kind: ConfigType, text: str, reason: str) -> None:
    with pytest.raises(ConfigError) as caught:
        parse_type("some.key", text, kind)
    assert str(caught.value) == f"Invalid value {text} for configuration some.key: {reason}"


@pytest.mark.parametrize(
    ("validator", "text", "reason"),
    [
        (at_least(1), "0", "Value must be at least 1"),
        (Between(0, 10), "11", "Value must be no more than 10"),
        (Between(1, 9, also=-1), "0", "Value must be at least 1"),
        (Check("even", lambda n: "must be even" if n % 2 else None), "3", "must be even"),
    ],
)
def test_a_number_out_of_bounds_is_refused(validator: Between, text: str, reason: str) -> None:
    key = ConfigKey("k", ConfigType.INT, 1, validator)
    with pytest.raises(ConfigError, match=f"^Invalid value {text} for configuration k: {reason}$"):
        key.parse(text)


def test_a_value_beside_the_bounds_may_be_allowed() -> None:
    assert ConfigKey("k", ConfigType.INT, -1, Between(1, 9, also=-1)).parse("-1") == -1


def test_every_item_of_a_list_must_be_allowed() -> None:
    key = ConfigKey[tuple[str, ...]]("policy", ConfigType.LIST, ("delete",), OneOf("compact", "delete"))
    assert key.parse("compact, delete") == ("compact", "delete")
    with pytest.raises(ConfigError, match=r"policy: String must be one of: compact, delete$"):
        key.parse("compact,shrink")


def test_not_a_number_is_within_no_bounds() -> None:
    with pytest.raises(ConfigError, match="at least 0"):
        ConfigKey("ratio", ConfigType.DOUBLE, 0.5, Between(0, 1)).parse("NaN")


@pytest.mark.parametrize(
    ("validator", "text"),
    [
        (at_least(0), "[0,...]"),
        (Between(0, 1), "[0,...,1]"),
        (Between(1, 9, also=-1), "[1,...,9] or -1"),
        (Between(-4, 0), "[-4,...,0]"),
        (OneOf("a", "b"), "[a, b]"),
    ],
)
def test_allowed_values_are_described_as_kafkas_documents_do(validator: Between | OneOf, text: str) -> None:
    assert validator.describe() == text


def test_a_key_of_a_class_reads_its_value_from_the_instance() -> None:
    assert Example({"num.partitions": 3}).num_partitions == 3
    assert Example.num_partitions.name == "num.partitions"


def test_a_definition_reads_declared_keys_and_fills_in_defaults() -> None:
    definition = ConfigDef([Example.num_partitions, ConfigKey[str | None]("rack", ConfigType.STRING, None)])
    assert definition.parse_all({"num.partitions": "5", "other": "x"}) == {"num.partitions": 5, "rack": None}
    assert definition.parse("rack", " r1 ") == "r1"


def test_a_key_declared_twice_is_a_mistake() -> None:
    with pytest.raises(ValueError, match=r"num\.partitions is declared twice"):
        ConfigDef([Example.num_partitions, Example.num_partitions])


def test_a_misspelt_key_finds_the_most_similar_key_and_an_unknown_one_none() -> None:
    known = ["num.partitions", "log.dirs", "listeners"]
    assert nearest("num.partition", known) == "num.partitions"
    assert nearest("spark.executor.memory", known) is None


def test_a_password_hides_itself() -> None:
    assert f"{Password('secret')} {Password('secret')!r} {render(Password('secret'))}" == "[hidden] [hidden] [hidden]"


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (None, ""),
        (True, "true"),
        ((), ""),
        (("a", "b"), "a,b"),
        (0.5, "0.5"),
        (1.0, "1.0"),
        (1e7, "1.0E7"),
        (1.7976931348623157e308, "1.7976931348623157E308"),
        (-0.0001, "-1.0E-4"),
        (float("nan"), "NaN"),
        (float("-inf"), "-Infinity"),
    ],
)
def test_values_are_written_as_java_writes_them(value: object, text: str) -> None:
    assert render(value) == text


@given(st.floats(allow_nan=False))
def test_a_double_written_reads_back_as_itself(value: float) -> None:
    assert parse_type("x", render(value), ConfigType.DOUBLE) == value


@given(st.text())
def test_any_text_is_a_value_or_a_config_error(text: str) -> None:
    for kind in ConfigType:
        with contextlib.suppress(ConfigError):
            parse_type("x", text, kind)
