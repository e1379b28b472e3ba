"""The same records through Connect's own transforms and through ours."""

import datetime
from collections.abc import Iterator
from typing import Any

import pytest

from ottla.pipeline.declared import is_required
from ottla.pipeline.predicates import PREDICATES
from ottla.pipeline.record_frame import ERROR
from ottla.pipeline.settings import Settings
from ottla.pipeline.transforms import TRANSFORMS, apply_transforms, read_transforms
from ottla.pipeline.transforms.literals import header_bytes
from ottla.wire.config_def import render
from tests.pipeline.connect import PACKAGE, ConnectTransforms
from tests.pipeline.connect.cases import CASES, FRAMES, HEADERS, LITERALS, TIME, Chain, one
from tests.pipeline.connect.records import comparable, record

pytestmark = pytest.mark.slow

FRAME = (
    "topic string, partition int, offset bigint, timestamp timestamp, key {0}, value {0},"
    " headers array<struct<key: string, value: binary>>,"
    f" error {ERROR}, original struct<key: binary, value: binary>"
)


@pytest.fixture(scope="module")
def connect() -> Iterator[ConnectTransforms]:
    with ConnectTransforms() as running:
        yield running


@pytest.fixture(scope="module")
def frames(spark: Any) -> dict[str, tuple[Any, list[dict[str, Any]]]]:
    """Make the rows of all cases, and the records that they are."""
    from pyspark.sql import functions as fn

    at = datetime.datetime(2024, 2, 29, 12, 34, 56, 789000, tzinfo=datetime.UTC)
    made = {}
    for name, (kind, values) in FRAMES.items():
        rows = [("orders", 3, offset, at, value, value, HEADERS, None, None) for offset, value in enumerate(values)]
        frame = spark.createDataFrame(rows, FRAME.format(kind))
        if "clock: int" in kind:
            clock = fn.col("value")["clock"].alias("clock", metadata={"connect.name": TIME})
            others = [fn.col("value")[other].alias(other) for other in ("unix", "day", "at")]
            value = fn.when(fn.col("value").isNotNull(), fn.struct(*others, clock)).alias("value")
            frame = frame.select(*(value if column == "value" else column for column in frame.columns))
        frame = frame.cache()
        moment = {"offset": 0, "timestamp": int(at.timestamp() * 1000)}
        records = [{**record(frame.schema, row), **moment, "offset": row["offset"]} for row in frame.collect()]
        made[name] = (frame, records)
    return made


def ours(frame: Any, chain: Chain) -> list[dict[str, Any] | None]:
    """Return what our transforms make of a frame, a record a row."""
    texts = {"transforms": ",".join(f"t{number}" for number in range(len(chain)))}
    for number, stage in enumerate(chain):
        texts |= {f"transforms.t{number}.{key}": value for key, value in stage["config"].items()}
        texts[f"transforms.t{number}.type"] = stage["class"]
        if "predicate" in stage:
            texts |= {f"predicates.p.{key}": value for key, value in stage["predicate"]["config"].items()}
            texts |= {"predicates": "p", "predicates.p.type": PACKAGE + stage["predicate"]["class"]}
            texts |= {f"transforms.t{number}.predicate": "p", f"transforms.t{number}.negate": str(stage["negate"])}
    job = Settings(texts, "job.properties")
    transforms = read_transforms(job)
    job.finish()
    made = apply_transforms(frame, transforms)
    assert made.columns == frame.columns
    found: list[dict[str, Any] | None] = [None] * frame.count()
    for row in made.collect():
        error = row["error"]
        failed = {"error": {"class": error["class"], "message": error["message"]}} if error else None
        found[row["offset"]] = failed or record(made.schema, row)
    return found


def named(chain: Chain) -> Chain:
    """Return the stages with Connect's full names."""
    stages = []
    for stage in chain:
        full = {**stage, "class": PACKAGE + stage["class"]}
        if "predicate" in stage:
            full["predicate"] = {**stage["predicate"], "class": PACKAGE + stage["predicate"]["class"]}
        stages.append(full)
    return stages


@pytest.mark.parametrize(
    ("name", "chain"), CASES, ids=[f"{number}-{case[1][0]['class']}" for number, case in enumerate(CASES)]
)
def test_records_become_what_connect_makes_of_them(
    frames: dict[str, tuple[Any, list[dict[str, Any]]]], connect: ConnectTransforms, name: str, chain: Chain
) -> None:
    frame, records = frames[name]
    theirs = connect.apply(named(chain), records)
    for mine, expected in zip(ours(frame, chain), theirs, strict=True):
        assert comparable(mine, expected) == comparable(expected, mine)


def test_literals_of_headers_are_written_as_connect_writes_them(connect: ConnectTransforms) -> None:
    empty = {"topic": "t", "partition": 0, "offset": 0, "key": None, "value": None, "headers": []}
    for literal in LITERALS:
        chain = named([one("InsertHeader", header="h", value_literal=literal)])
        (answer,) = connect.apply(chain, [empty])
        assert answer is not None
        written = header_bytes(literal)
        assert [["h", written if written is None else written.decode()]] == answer["headers"], literal


def test_keys_types_and_defaults_are_those_of_connect(connect: ConnectTransforms) -> None:
    both = {**TRANSFORMS, **{f"predicates.{name}": each for name, each in PREDICATES.items()}}
    for name, ours in both.items():
        theirs = {key["name"]: key for key in connect.config(name)}
        assert set(theirs) == set(ours.CONFIG), name
        for key in ours.CONFIG.values():
            expected = theirs[key.name]
            assert (key.type.name, is_required(key)) == (expected["type"], expected["required"]), (name, key.name)
            if not is_required(key):
                assert render(key.default) == (expected["default"] or ""), (name, key.name)
