"""What happens to records between a job's source and its sink, step by step: windows, joins, state, SQL.

Owns the order of the steps, the names between them, and the way of bad records around them. Must not know sources,
formats and sinks, and needs no Spark until steps are applied. Counterparts in Kafka: StreamsBuilder, Topology.
"""

import contextlib
from collections.abc import Iterator, Mapping, Sequence
from typing import Final

from ottla.pipeline.settings import JobError, Settings
from ottla.pipeline.steps.aggregation import Aggregate, Window
from ottla.pipeline.steps.deduplicate import Deduplicate
from ottla.pipeline.steps.inputs import Input, read_inputs
from ottla.pipeline.steps.join import Join
from ottla.pipeline.steps.result import Result
from ottla.pipeline.steps.sql import Sql
from ottla.pipeline.steps.state import State
from ottla.pipeline.steps.step import COLUMNS, RECORDS, DataFrame, Step

__all__ = [
    "Input",
    "Step",
    "apply_steps",
    "check_order",
    "output_mode",
    "read_inputs",
    "read_step",
    "read_steps",
    "told",
]

_KINDS: Final[dict[str, type[Step]]] = {
    "sql": Sql,
    "window": Window,
    "aggregate": Aggregate,
    "join": Join,
    "deduplicate": Deduplicate,
    "state": State,
}
_OF_THE_LAST: Final = ("key", "value", "windowed_key")


def read_steps(settings: Settings) -> list[Step]:
    """The `[[steps]]` of a job, and what makes records of the last one's rows; nothing where there are none."""
    are_tables = {each.name: each.is_table for each in read_inputs(settings)}
    names = {RECORDS, *are_tables}
    steps: list[Step] = []
    parts = settings.tables("steps")
    for part in parts:
        is_last = part is parts[-1]
        for key in _OF_THE_LAST:
            if key in part and not is_last:
                raise part.wrong(key, "is for the last step")
        step = read_step(part)
        for key, name in step.reads().items():
            if name not in names:
                raise part.wrong(key, f"names neither an input nor an earlier step: {name}")
        check_order(step, steps)
        if isinstance(step, Join) and step.other in are_tables:
            step.check(with_stream=not are_tables[step.other])
        names.add(step.name)
        are_tables.pop(step.name, None)
        steps.append(step)
        if is_last:
            steps.append(Result(part, steps))
        part.finish()
    return steps


def read_step(settings: Settings) -> Step:
    """One step, whose settings may have more keys."""
    return _KINDS[settings.choice("kind", list(_KINDS))](settings)


def output_mode(steps: Sequence[Step]) -> str:
    """How a query with these steps is to be started, in Spark's words."""
    return "update" if any(step.updates for step in steps) else "append"


def apply_steps(frame: DataFrame, steps: Sequence[Step], inputs: Mapping[str, DataFrame]) -> DataFrame:
    """The record frame that steps make of a record frame, and of those that the inputs have prepared.

    Bad records come out beside the result. Where there may be any, Spark reads the source once more to find them.
    """
    if not steps:
        return frame
    frames = {RECORDS: frame, **inputs}
    views = {name: each.where("error IS NULL").select(*COLUMNS) for name, each in frames.items()}
    for step in steps:
        with told(step):
            views[step.name] = step.apply(views)
    result = views[steps[-1].name]
    for each in frames.values():
        # In a table that is read for a batch there are none: one would end the job.
        if each is frame or each.isStreaming:
            bad = each.where("error IS NOT NULL").drop("key", "value")
            result = result.unionByName(bad, allowMissingColumns=True)
    return result


def check_order(step: Step, before: Sequence[Step]) -> None:
    """Refuse a step that cannot follow those before it."""
    if step.needs_watermark and not step.watermark and not any(each.watermark for each in before):
        raise step.settings.wrong("watermark", "is missing")
    if step.is_stateful and any(each.updates for each in before):
        raise step.settings.wrong("kind", "cannot follow updates: only windows whose emit is final can be followed")
    if step.updates and any(isinstance(each, Join) and each.is_stateful and each.type != "inner" for each in before):
        raise step.settings.wrong("emit", "is to be final behind a left or outer join of streams")


@contextlib.contextmanager
def told(step: Step) -> Iterator[None]:
    """Have what Spark says of a step's SQL name the step."""
    from pyspark.errors import PySparkException

    try:
        yield
    except PySparkException as error:
        where = step.settings.prefix.rstrip(".")
        raise JobError(f"{step.settings.file}: {where}: {str(error).strip().splitlines()[0]}") from error
