"""kafka-configs: flags in both spellings, and texts of Java and Scala in its lines."""

import io
from pathlib import Path

import pytest

from ottla.scripts.kafka.clusters.config_flags import added, entity_names, entity_types, parsed_flags
from ottla.scripts.kafka.face import Face, JavaError, Release
from ottla.scripts.kafka.flags import Parsed
from ottla.scripts.kafka.java.hashes import by_scala_set, double_text
from ottla.scripts.kafka.tools.configs import main, validate_topic

SERVER = ("--bootstrap-server", "127.0.0.1:1")


def quiet(release: Release = Release.V4_3) -> Face:
    return Face(release, io.StringIO(), io.StringIO())


def parsed(*words: str, release: Release = Release.V4_3) -> Parsed:
    return parsed_flags([*SERVER, *words], quiet(release))


def complaint(*words: str, release: Release = Release.V4_3) -> str:
    with pytest.raises(JavaError) as refused:
        parsed(*words, release=release)
    return str(refused.value.message)


@pytest.mark.parametrize(
    ("words", "types", "names"),
    [
        (("--topic", "t"), ["topics"], ["t"]),
        (("--entity-type", "topics", "--entity-name", "t"), ["topics"], ["t"]),
        (("--broker-defaults",), ["brokers"], [""]),
        (("--entity-type", "brokers", "--entity-default"), ["brokers"], [""]),
        (("--user", "u", "--client-defaults"), ["users", "clients"], ["u", ""]),
        (
            ("--entity-type", "clients", "--entity-default", "--entity-type", "users", "--entity-name", "u"),
            ["clients", "users"],
            ["", "u"],
        ),
    ],
)
def test_an_entity_is_named_in_either_spelling(words: tuple[str, ...], types: list[str], names: list[str]) -> None:
    found = parsed("--describe", *words)
    assert (entity_types(found), entity_names(found)) == (types, names)


def test_each_release_has_its_entities() -> None:
    assert entity_types(parsed("--describe", "--group", "g")) == ["groups"]
    assert "group is not a recognized option" in complaint("--describe", "--group", "g", release=Release.V3_9)
    assert "must be one of topics, clients, users" in complaint(
        "--describe", "--entity-type", "groups", release=Release.V3_9
    )


@pytest.mark.parametrize(
    ("text", "configs"),
    [
        ("a=b", {"a": "b"}),
        (" a = b , c = d ", {"a": "b", "c": "d"}),
        ("a=[b,c],d=e", {"a": "b,c", "d": "e"}),
        ("a=,b=[]", {"a": "", "b": ""}),
        ("SCRAM-SHA-256=[iterations=5000,password=x]", {"SCRAM-SHA-256": "iterations=5000,password=x"}),
    ],
)
def test_configs_to_add_are_pairs_with_lists_in_brackets(text: str, configs: dict[str, str]) -> None:
    found = parsed("--alter", "--topic", "t", "--add-config", text)
    assert added(found, quiet()) == configs


@pytest.mark.parametrize("text", ["a", "a=b=c", "a=b,c", ""])
def test_an_invalid_pair_is_refused(text: str) -> None:
    found = parsed("--alter", "--topic", "t", f"--add-config={text}")
    with pytest.raises(JavaError, match="Invalid entity config"):
        added(found, quiet())


def test_configs_to_add_may_be_in_a_file(tmp_path: Path) -> None:
    file = tmp_path / "file"
    file.write_text("# a comment\na = b,c\n")
    found = parsed("--alter", "--topic", "t", "--add-config-file", str(file))
    assert added(found, quiet()) == {"a": "b,c"}


def test_zookeeper_is_refused_in_a_line_after_kafkas_warning() -> None:
    out, err = io.StringIO(), io.StringIO()
    words = ["--zookeeper", "z:2181", "--describe", "--entity-type", "users"]
    assert main(words, Face(Release.V3_9, out, err)) == 1
    assert out.getvalue().startswith("Warning: --zookeeper is deprecated")
    assert err.getvalue() == "--zookeeper is not supported here: this tool asks brokers only. Nothing was changed.\n"


@pytest.mark.parametrize(
    ("name", "reason"),
    [("", "empty string"), ("..", "'..' is not allowed"), ("a/b", "other than ASCII"), ("a" * 250, "length 249")],
)
def test_an_invalid_topic_name_is_refused_in_kafkas_words(name: str, reason: str) -> None:
    with pytest.raises(JavaError, match=reason):
        validate_topic(name)
    validate_topic("a" * 249)


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (1024.0, "1024.0"),
        (9999999.0, "9999999.0"),
        (1e7, "1.0E7"),
        (12345678.5, "1.23456785E7"),
        (0.001, "0.001"),
        (0.00025, "2.5E-4"),
        (0.0, "0.0"),
        (-1.5e21, "-1.5E21"),
        (float("inf"), "Infinity"),
        (float("nan"), "NaN"),
    ],
)
def test_numbers_are_printed_like_in_java(value: float, text: str) -> None:
    assert double_text(value) == text


def test_four_keys_stay_in_order_and_more_have_the_order_of_scalas_trie() -> None:
    assert by_scala_set("dcbad") == ["d", "c", "b", "a"]
    # The output of Scala 2.13 for Set("a", ..., "h").
    assert by_scala_set("abcdefgh") == ["e", "f", "a", "b", "g", "d", "c", "h"]
    assert len(by_scala_set(map(str, range(2000)))) == 2000
