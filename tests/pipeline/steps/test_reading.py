"""Steps and inputs as they stand in a job's file, read without Spark."""

import re
import tomllib

import pytest

from ottla.pipeline.settings import JobError, Settings
from ottla.pipeline.steps import output_mode, read_inputs, read_steps

INPUTS = """
    [[inputs]]
    name = "clicks"
    type = "topic"
    topic = "clicks"
    [[inputs]]
    name = "customers"
    as = "table"
    type = "topic"
    topic = "customers"
"""
WINDOW = 'kind = "window"\nsize = "10 minutes"\ngroup_by = "key"\naggregates.n = "count(*)"\n'
SESSION = WINDOW.replace("size", "session_gap")
JOIN = 'kind = "join"\non = "true"\nselect = "a"\n'
WITH_STREAM = JOIN + 'with = "clicks"\n'
WITH_TABLE = JOIN + 'with = "customers"\n'
STATE = 'kind = "state"\nschema = "n INT"\ngroup_by = "key"\n'
GRACE = 'watermark = "1 minute"\n'
FINAL = 'emit = "final"\n'


def job(*steps: str, inputs: str = INPUTS) -> Settings:
    text = inputs + "".join(f"[[steps]]\n{step}\n" for step in steps)
    return Settings(tomllib.loads(text), "job.toml")


def test_a_job_without_steps_has_none() -> None:
    assert read_steps(job()) == []
    assert output_mode([]) == "append"


def test_inputs_are_streams_unless_they_are_tables() -> None:
    clicks, customers = read_inputs(job())
    assert (clicks.name, clicks.is_table) == ("clicks", False)
    assert (customers.name, customers.is_table) == ("customers", True)
    # What its source does not ask for is unknown.
    assert customers.settings.text("type") == "topic"
    with pytest.raises(JobError, match=r"^job.toml: inputs\[1\].topic is unknown"):
        customers.settings.finish()


@pytest.mark.parametrize(
    ("steps", "mode"),
    [
        ([WINDOW + GRACE], "update"),
        ([WINDOW + GRACE + FINAL], "append"),
        ([SESSION + GRACE], "append"),
        ([WINDOW + GRACE + FINAL, WINDOW], "update"),
        ([WITH_TABLE, WINDOW + GRACE, WITH_TABLE, 'kind = "sql"\nquery = "SELECT 1"'], "update"),
        ([WITH_STREAM + GRACE + 'within = "1 hour 30 minutes"'], "append"),
        (['kind = "aggregate"\ngroup_by = "key"\naggregates.n = "count(*)"'], "update"),
        (['kind = "deduplicate"\nkeys = "key"\nfrom = "clicks"\n' + GRACE, WINDOW], "update"),
        ([STATE + 'class = "a:B"'], "append"),
    ],
)
def test_steps_say_how_their_query_is_to_be_started(steps: list[str], mode: str) -> None:
    assert output_mode(read_steps(job(*steps))) == mode


@pytest.mark.parametrize(
    ("steps", "line"),
    [
        (['query = "x"'], "steps[0].kind is missing"),
        (['kind = "map"'], "steps[0].kind is to be one of sql, window, aggregate, join, deduplicate, state, not 'map'"),
        (['kind = "sql"\nquery = "x"\nqueri = "x"'], "steps[0].queri is unknown; did you mean steps[0].query?"),
        (
            ['kind = "sql"\nquery = "x"\nname = "a-b"'],
            "steps[0].name is to be a name of letters, digits and _, not 'a-b'",
        ),
        ([WINDOW], "steps[0].watermark is missing"),
        ([WINDOW + 'watermark = "soon"'], "steps[0].watermark is to be a duration such as \"10 minutes\", not 'soon'"),
        (['kind = "window"\nsize = "1 day"'], "steps[0].group_by is missing"),
        (['kind = "window"\nsize = "1 day"\ngroup_by = "key"'], "steps[0].aggregates is missing"),
        ([WINDOW + GRACE + 'advance = "1 hour"'], "steps[0].advance is to be more than nothing and at most 10 minutes"),
        ([SESSION.replace('"key"', "[]") + GRACE], "steps[0].group_by is empty, but a session belongs to a key"),
        ([SESSION.replace("10 minutes", "0 seconds") + GRACE], "steps[0].session_gap is to be more than nothing"),
        (['kind = "deduplicate"\nkeys = []\n' + GRACE], "steps[0].keys is missing"),
        (
            [SESSION + GRACE + 'emit = "updates"'],
            "steps[0].emit is to be final: Spark tells of a session only once it has ended",
        ),
        (
            [WINDOW + GRACE, 'kind = "deduplicate"\nkeys = "key"'],
            "steps[1].kind cannot follow updates: only windows whose emit is final can be followed",
        ),
        (
            [WITH_TABLE.replace("customers", "clients")],
            "steps[0].with names neither an input nor an earlier step: clients",
        ),
        ([WINDOW + GRACE + 'from = "late"'], "steps[0].from names neither an input nor an earlier step: late"),
        ([WITH_STREAM + GRACE], "steps[0].within is missing: clicks is a stream"),
        ([WITH_STREAM + 'within = "1 hour"'], "steps[0].watermark is missing: clicks is a stream"),
        ([WITH_TABLE + GRACE], "steps[0].watermark is for streams, and customers is a table"),
        ([WITH_TABLE + 'type = "outer"'], "steps[0].type is to be inner or left, as customers is a table"),
        ([JOIN + 'with = "records"'], "steps[0].with is to be another view than records"),
        ([STATE + 'class = "Counter"'], "steps[0].class is to be module:Class, not 'Counter'"),
        ([STATE + 'class = "a:B"\ntimers = "event"'], "steps[0].watermark is missing"),
        ([WITH_TABLE + 'key = "a"', WITH_TABLE], "steps[0].key is for the last step"),
        (
            [WITH_TABLE + 'windowed_key = "avro"'],
            "steps[0].windowed_key is to be one of struct, kafka-streams, none, not 'avro'",
        ),
    ],
)
def test_what_is_wrong_with_a_step_is_said_in_one_line(steps: list[str], line: str) -> None:
    with pytest.raises(JobError, match=f"^job.toml: {re.escape(line)}$"):
        read_steps(job(*steps))


@pytest.mark.parametrize(
    ("inputs", "line"),
    [
        ("inputs = 3", "inputs is to be a list of tables, not 3"),
        ("[[inputs]]", "inputs[0].name is missing"),
        ('[[inputs]]\nname = "records"', "inputs[0].name is 'records', which is taken"),
        ('[[inputs]]\nname = "a"\nas = "list"', "inputs[0].as is to be one of stream, table, not 'list'"),
    ],
)
def test_what_is_wrong_with_an_input_is_said_in_one_line(inputs: str, line: str) -> None:
    with pytest.raises(JobError, match=f"^job.toml: {re.escape(line)}$"):
        read_steps(job(inputs=inputs))
