"""Keys of a job, and what is said of those that are wrong."""

import re
from collections.abc import Callable

import pytest

from ottla.pipeline.settings import JobError, Settings


def settings(**values: object) -> Settings:
    return Settings({key.replace("_", "."): value for key, value in values.items()}, "job.toml", "sink.")


def test_texts_and_values_of_toml_mean_the_same() -> None:
    for found in (settings(a="3", b="true", c="x, y"), settings(a=3, b=True, c=["x", "y"])):
        assert found.integer("a") == 3
        assert found.truth("b") is True
        assert found.texts("c") == ["x", "y"]
        assert found.text("a") == "3"
        assert found.text("b") == "true"
        found.finish()


def test_a_default_stands_for_what_is_not_there() -> None:
    nothing = settings()
    assert (nothing.text("a", "x"), nothing.integer("b", 2), nothing.truth("c", default=False)) == ("x", 2, False)
    assert nothing.texts("d", ()) == []
    assert nothing.optional("e") is None


def test_a_table_and_dotted_keys_are_the_same_part() -> None:
    for found in (settings(mask={"fields": "a"}), settings(mask_fields="a")):
        part = found.part("mask")
        assert part.text("fields") == "a"
        part.finish()
        found.finish()


@pytest.mark.parametrize(
    ("ask", "line"),
    [
        (lambda s: s.text("topic"), "job.toml: sink.topic is missing"),
        (lambda s: s.integer("n"), "job.toml: sink.n is to be a whole number, not 'many'"),
        (lambda s: s.truth("n"), "job.toml: sink.n is to be true or false, not 'many'"),
        (lambda s: s.choice("n", ["few"]), "job.toml: sink.n is to be one of few, not 'many'"),
        (lambda s: s.texts("table"), "job.toml: sink.table is to be a list of texts, not {}"),
        (lambda s: s.text("table"), "job.toml: sink.table is to be a text, not {}"),
        (lambda s: s.part("n"), "job.toml: sink.n is to be a table, not 'many'"),
        (
            lambda s: (s.texts("nn", ()), s.part("table"), s.finish()),
            "job.toml: sink.n is unknown; did you mean sink.nn?",
        ),
    ],
)
def test_what_is_wrong_is_said_in_one_line(ask: Callable[[Settings], object], line: str) -> None:
    values = settings(n="many", table={})
    with pytest.raises(JobError, match=f"^{re.escape(line)}$"):
        ask(values)


def test_what_nobody_asked_for_is_unknown() -> None:
    with pytest.raises(JobError, match=r"sink\.zzz is unknown$"):
        settings(zzz=1).finish()


def test_a_reference_to_a_secret_is_not_taken_for_the_secret() -> None:
    reference = "${file:/run/secrets:password}"
    with pytest.raises(JobError, match=re.escape(f"job.toml: sink.password has {reference}, which is not looked up")):
        settings(password=f"x{reference}").optional("password")
    with pytest.raises(JobError, match=r"sink\.password has"):
        settings(password=reference).all_texts()
    # A client of Kafka's that is told of providers asks them.
    for_client = {"config_providers": "file", "password": reference}
    assert settings(**for_client).all_texts()["password"] == reference
    assert settings(password="${1}x$").text("password") == "${1}x$"
