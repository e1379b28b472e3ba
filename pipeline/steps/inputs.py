"""`[[inputs]]`: what steps read besides the records of the job's source.

Owns what makes a table of a topic. Must not know how sources are read. Counterparts in Kafka: StreamsBuilder's stream,
table and globalTable.
"""

from dataclasses import dataclass

from ottla.pipeline.dead_letters import read_errors
from ottla.pipeline.settings import Settings
from ottla.pipeline.steps.step import RECORDS, DataFrame, identifier


@dataclass(frozen=True)
class Input:
    """A source like the job's own, and the name of its view.

    A table is to be read as a static frame, anew in each batch: of a topic the newest record of each key, of anything
    else all there is.
    """

    name: str
    is_table: bool
    settings: Settings

    def prepare(self, frame: DataFrame) -> DataFrame:
        """The record frame that steps take, of the one that the source gave."""
        if not self.is_table:
            return frame
        return table(newest(frame) if self.settings.text("type") == "topic" else frame)


def read_inputs(settings: Settings) -> list[Input]:
    """The inputs of a job. What else is in their settings is for their sources, who are to finish them."""
    inputs: list[Input] = []
    for part in settings.tables("inputs"):
        name = identifier(part, "name")
        if name in (RECORDS, *(each.name for each in inputs)):
            raise part.wrong("name", f"is {name!r}, which is taken")
        is_table = part.choice("as", ["stream", "table"], "stream") == "table"
        inputs.append(Input(name, is_table, part))
    return inputs


def newest(frame: DataFrame) -> DataFrame:
    """The newest record of each key of each partition: what compaction leaves, tombstones among it."""
    from pyspark.sql import functions

    keyed = frame.where("key IS NOT NULL OR error IS NOT NULL").groupBy("topic", "partition", "key")
    return keyed.agg(functions.max_by(functions.struct(*frame.columns), "offset").alias("last")).select("last.*")


def table(frame: DataFrame) -> DataFrame:
    """The rows that have a value. A bad one ends the query: a table is read again and again, dead letters go once."""
    # A bad row stays until it is seen: its value may be null.
    return strict(frame.where("value IS NOT NULL OR error IS NOT NULL"))


def strict(frame: DataFrame) -> DataFrame:
    """The same frame, where a bad row ends the query."""
    return read_errors(Settings({}, "errors")).checked(frame)
