"""A table or a query of a database, read again and again: whole, or what is new or changed since.

Owns which rows a poll takes, and the rows that were taken and not yet processed. A poll takes the rows between two
positions and writes them, with the position that they end at, under the checkpoint of the query; one rename makes all
of that count. Spark streams what lies there. So a batch that is replayed has the same rows, whatever has become of them
in the database since, and no row is taken twice or left out because the job was killed.

What is missed is what the database shows too late, as with Connect:

- incrementing: updates, and a row that is committed after one with a larger number was read.
- timestamp: a row that is committed with a time that was read already. A poll reads up to the time on the database's
  clock, exclusive, `timestamp.delay.interval.ms` before now: rows that are committed within that are not missed.
- timestamp+incrementing: of those, only updates and rows whose number is not larger than all that were read.
- in all of them, rows that are deleted; in bulk, none: there everything is read every time.

Counterpart in Kafka's world: JdbcSourceConnector, JdbcSourceTask.
"""

import json
import time
import uuid
from dataclasses import asdict, dataclass
from typing import Any, Final

from ottla.pipeline.database import Connection, Database
from ottla.pipeline.filesystem import Folder
from ottla.pipeline.settings import Settings
from ottla.pipeline.sources.source import Source

_MODES: Final = ("bulk", "incrementing", "timestamp", "timestamp+incrementing")
# Polls whose rows still wait for their batch; with more, a source waits too.
_MOST_WAITING: Final = 16
_POSITION: Final = "_position.json"


@dataclass(frozen=True)
class Position:
    """How far was read: up to and including a number, up to but not including a time (as the database spells it).

    In another table a position means nothing; that of a query, whose text may change, has none.
    """

    number: int | None = None
    time: str | None = None
    table: str | None = None


class JdbcSource(Source):
    """Rows of `table` or of `query`, every `poll.interval.ms`."""

    def __init__(self, settings: Settings) -> None:
        self._settings = settings
        self._database = Database(settings)
        self.needs = [self._database.dialect.name] if self._database.dialect else []
        table, query = settings.optional("table"), settings.optional("query")
        if (table is None) == (query is None):
            raise settings.wrong("table", "or query is to be there, one of both")
        self._table = table
        self._rows = table or f"({query}) queried"
        mode = settings.choice("mode", _MODES)
        self._number = settings.text("incrementing.column.name") if "incrementing" in mode else None
        self._time = settings.text("timestamp.column.name") if "timestamp" in mode else None
        if self._time is not None and self._database.dialect is None:
            raise settings.wrong("mode", f"is to be bulk or incrementing where the clock is unknown, not {mode}")
        if self._time is not None:
            self._delay_ms = settings.integer("timestamp.delay.interval.ms", 0, least=0)
        self._interval_s = settings.integer("poll.interval.ms", 5000, least=1) / 1000
        self._next_poll = 0.0
        self._spool: _Spool | None = None

    def load(self, spark: Any, *, streaming: bool, checkpoint: str = "") -> Any:
        """Read all that there is, or what there is now and what `poll` finds later."""
        try:
            with self._database.transaction(spark):
                pass  # It can be reached.
            schema = self._read(spark, "1 = 0").schema
            if not streaming:
                return self._read(spark, "1 = 1")
            self._spool = _Spool(spark, checkpoint)
            if (table := self._spool.position().table) not in (None, self._table):
                raise self._settings.wrong(
                    "table", f"was {table} when the job ran before: reset the job, or name it anew"
                )
            self.poll()
            return self._spool.stream(schema)
        except Exception as error:
            raise self._database.wrong("url", error) from None

    def poll(self) -> None:
        """Take what is new, if it is time for that and what was taken earlier is processed."""
        now = time.monotonic()
        if self._spool is None or now < self._next_poll or self._spool.waiting() >= _MOST_WAITING:
            return
        self._next_poll = now + self._interval_s
        try:
            start = self._spool.position()
            with self._database.transaction(self._spool.spark) as connection:
                end = self._end(connection, start)
                rows = self._between(start, end)
                is_empty = connection.row(f"SELECT 1 FROM {self._rows} WHERE {rows}") is None
            if not is_empty:
                self._spool.add(self._read(self._spool.spark, rows), end)
        except Exception as error:
            raise self._database.wrong("url", error) from None

    def _read(self, spark: Any, condition: str) -> Any:
        return self._database.read(spark, f"SELECT * FROM {self._rows} WHERE {condition}")

    def _end(self, connection: Connection, start: Position) -> Position:
        """How far can be read now; never back, be it that a clock was set or a delay made longer."""
        end_time, number = None, start.number
        if self._time is not None and self._database.dialect is not None:
            seconds = f"{self._delay_ms / 1000:f}"
            since = "NULL" if start.time is None else _quoted(start.time)
            clock = self._database.dialect.clock.format(
                seconds=seconds, start=since, column=self._time, table=self._rows
            )
            end_time = (connection.row(clock) or [None])[0]
        if self._number is not None:
            condition = "1 = 1" if end_time is None else f"{self._time} < {_quoted(end_time)}"
            found = connection.row(f"SELECT max({self._number}) FROM {self._rows} WHERE {condition}")
            if found is not None and found[0] is not None:
                number = int(found[0]) if number is None else max(int(found[0]), number)
        return Position(number, end_time, self._table)

    def _between(self, start: Position, end: Position) -> str:
        """The rows from one position to another."""
        numbers, times = f"{self._number} <= {end.number}", f"{self._time} < {_quoted(end.time)}"
        if start.number is not None:
            numbers = f"{self._number} > {start.number} AND {numbers}"
        if self._time is None:
            if self._number is None:
                return "1 = 1"
            return "1 = 0" if end.number is None else numbers
        if start.time is None:
            return times
        since = f"{self._time} >= {_quoted(start.time)}"
        # What has a new number came too late for the time that it bears.
        return f"{times} AND ({since}{'' if self._number is None or start.number is None else f' OR ({numbers})'})"


def _quoted(text: str | None) -> str:
    return "'" + (text or "").replace("'", "''") + "'"


class _Spool:
    """Under a checkpoint, a folder for each poll that found rows: `rows/1`, `rows/2` ..."""

    def __init__(self, spark: Any, checkpoint: str) -> None:
        self.spark = spark
        self._folder = Folder(spark, f"{checkpoint}/jdbc")
        for name in self._folder.names(""):
            if name.startswith("staging-"):
                self._folder.remove(name)
        self._folder.make("rows")

    def stream(self, schema: Any) -> Any:
        """The rows, a poll in a batch; files go when their batch is done."""
        options = {"recursiveFileLookup": True, "maxFilesPerTrigger": 1, "cleanSource": "delete"}
        return self.spark.readStream.schema(schema).options(**options).parquet(self._folder.pattern("rows"))

    def position(self) -> Position:
        """Where the last poll ended."""
        polls = self._polls()
        return Position(**json.loads(self._folder.read(f"rows/{polls[-1]}/{_POSITION}"))) if polls else Position()

    def waiting(self) -> int:
        """How many of the newest polls no batch has done with."""
        polls = self._polls()
        waiting = 0
        # Batches are in order: all that is older than what is gone is done, even if Spark left its rows behind.
        for poll in reversed(polls):
            if poll != polls[-1] - waiting or not self._folder.all_files(f"rows/{poll}"):
                break
            waiting += 1
        return waiting

    def add(self, rows: Any, end: Position) -> None:
        """Take rows, all or none."""
        polls = self._polls()
        staging = f"staging-{uuid.uuid4().hex}"
        rows.write.parquet(self._folder.full(staging))
        self._folder.write(f"{staging}/{_POSITION}", json.dumps(asdict(end)))
        self._folder.move(staging, f"rows/{polls[-1] + 1 if polls else 1}")
        # Of older polls nothing is needed but the rows that wait.
        for poll in polls:
            if not self._folder.all_files(f"rows/{poll}"):
                self._folder.remove(f"rows/{poll}")

    def _polls(self) -> list[int]:
        return sorted(int(name) for name in self._folder.names("rows"))
