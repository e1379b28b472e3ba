"""A table of a SQLite or PostgreSQL database.

Owns how a batch gets into the table exactly once. Spark's tasks write it to a staging table, several connections at a
time; then one transaction on the driver moves the rows into the table, notes query and batch in `ottla_batches` and
drops the staging table. So a batch whose transaction was committed is left out when it comes again, and of any other
nothing is in the table. Each attempt has a staging table of its own, and each row a number that is unique there: a task
that Spark runs again fails, rather than that a row is there twice. What killed attempts leave is dropped by the next.

Counterpart in Kafka's world: JdbcSinkConnector.
"""

import hashlib
import uuid
from typing import Any, Final

from ottla.pipeline.database import Connection, Database
from ottla.pipeline.settings import Settings
from ottla.pipeline.sinks.sink import Sink

_BATCHES: Final = "ottla_batches"
_ROW: Final = "ottla_row"


class JdbcSink(Sink):
    """Rows of `table`: added (`insert.mode` insert), or in the place of those with the same `pk.fields` (upsert).

    Of rows with the same key in a batch the last one counts. With `auto.create` the table is made where it is missing.
    """

    def __init__(self, settings: Settings) -> None:
        self._settings = settings
        self._database = Database(settings)
        if self._database.dialect is None:
            raise settings.wrong("url", "is to begin with jdbc:sqlite: or jdbc:postgresql:")
        self._dialect = self._database.dialect
        self.needs = [self._dialect.name]
        self._table = settings.text("table")
        self._replaces = settings.choice("insert.mode", ("insert", "upsert"), "insert") == "upsert"
        self._key = settings.texts("pk.fields", None if self._replaces else ())
        if self._replaces and not self._key:
            raise settings.wrong("pk.fields", "is to name the columns that tell rows apart")
        self._makes_table = settings.truth("auto.create", default=False)

    def check(self, spark: Any) -> None:
        """Reach the database, and look for the table unless it is to be made."""
        try:
            with self._database.transaction(spark) as connection:
                if not self._makes_table:
                    self._columns(connection)
        except Exception as error:
            raise self._database.wrong("table", error) from None

    def write(self, batch: Any, query_id: str, batch_id: int) -> None:
        """Stage and move, unless it was done."""
        spark = batch.sparkSession
        prefix = f"ottla_staging_{hashlib.sha256(query_id.encode()).hexdigest()[:12]}_"
        staging = f"{prefix}{uuid.uuid4().hex[:12]}"
        try:
            with self._database.transaction(spark) as connection:
                self._make_tables(connection, batch)
                if self._is_done(connection, query_id, batch_id):
                    return
                for left in connection.tables(prefix):
                    connection.execute(f"DROP TABLE {left}")
                columns = self._matched(connection, batch.columns)
                self._make_staging(connection, staging, columns)
            self._stage(batch, staging)
            with self._database.transaction(spark) as connection:
                if not self._is_done(connection, query_id, batch_id):
                    self._move(connection, staging, columns)
                    self._note(connection, query_id, batch_id)
                connection.execute(f"DROP TABLE {staging}")
        except Exception as error:
            raise self._database.wrong("table", error) from None

    def _make_tables(self, connection: Connection, batch: Any) -> None:
        if self._dialect.lock is not None:
            connection.row(self._dialect.lock)
        made = f"CREATE TABLE IF NOT EXISTS {_BATCHES} (query VARCHAR(200) PRIMARY KEY, batch BIGINT NOT NULL)"
        connection.execute(made)
        if self._makes_table:
            types = self._dialect.types
            parts = [f"{_quoted(name)} {types.get(kind, kind)}" for name, kind in batch.dtypes]
            if self._key:
                parts.append(f"PRIMARY KEY ({_listed(self._key)})")
            connection.execute(f"CREATE TABLE IF NOT EXISTS {self._table} ({', '.join(parts)})")

    def _is_done(self, connection: Connection, query_id: str, batch_id: int) -> bool:
        found = connection.row(f"SELECT batch FROM {_BATCHES} WHERE query = ?", query_id)
        return found is not None and int(found[0] or 0) >= batch_id

    def _note(self, connection: Connection, query_id: str, batch_id: int) -> None:
        changed = f"UPDATE {_BATCHES} SET batch = ? WHERE query = ? AND batch < ?"
        if not connection.execute(changed, batch_id, query_id, batch_id):
            # Fails if somebody else has noted a batch of this query meanwhile, and with it all of the transaction.
            connection.execute(f"INSERT INTO {_BATCHES} (query, batch) VALUES (?, ?)", query_id, batch_id)

    def _columns(self, connection: Connection) -> list[str]:
        return connection.columns(f"SELECT * FROM {self._table} WHERE 1 = 0")

    def _matched(self, connection: Connection, names: list[str]) -> list[str]:
        """What the table calls the columns of a batch: in SQL, as in Spark, case does not matter."""
        found = {name.lower(): name for name in self._columns(connection)}
        for name in names:
            if name.lower() not in found:
                raise self._settings.wrong("table", f"{self._table} has no column {name}")
        for name in self._key:
            if name.lower() not in map(str.lower, names):
                raise self._settings.wrong("pk.fields", f"names {name}, which rows have not: {', '.join(names)}")
        return [found[name.lower()] for name in names]

    def _make_staging(self, connection: Connection, staging: str, columns: list[str]) -> None:
        numbered = f"{_listed(columns)}, CAST(0 AS BIGINT) AS {_ROW}"
        connection.execute(f"CREATE TABLE {staging} AS SELECT {numbered} FROM {self._table} WHERE 1 = 0")
        connection.execute(f"CREATE UNIQUE INDEX row_of_{staging} ON {staging} ({_ROW})")

    def _stage(self, batch: Any, staging: str) -> None:
        from pyspark.sql import functions

        writer = batch.withColumn(_ROW, functions.monotonically_increasing_id()).write.format("jdbc")
        options = {**self._database.options(), "dbtable": staging, "numPartitions": str(self._dialect.writers)}
        writer.options(**options).mode("append").save()

    def _move(self, connection: Connection, staging: str, columns: list[str]) -> None:
        names = _listed(columns)
        moved = f"INSERT INTO {self._table} ({names}) SELECT {names} FROM {staging}"
        if not self._replaces:
            connection.execute(f"{moved} ORDER BY {_ROW}")
            return
        is_key = {name: name.lower() in map(str.lower, self._key) for name in columns}
        key = _listed([name for name in columns if is_key[name]])
        changes = [f"{_quoted(name)} = excluded.{_quoted(name)}" for name in columns if not is_key[name]]
        change = f"UPDATE SET {', '.join(changes)}" if changes else "NOTHING"
        last = f"SELECT max({_ROW}) FROM {staging} GROUP BY {key}"
        connection.execute(f"{moved} WHERE {_ROW} IN ({last}) ON CONFLICT ({key}) DO {change}")


def _quoted(name: str) -> str:
    return '"' + name.replace('"', '""') + '"'


def _listed(names: list[str]) -> str:
    return ", ".join(map(_quoted, names))
