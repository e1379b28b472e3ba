"""A database that the JVM reaches over JDBC: from the driver, in transactions, and with the options Spark wants.

Owns the keys that say which database, its driver, and what differs between SQLite and PostgreSQL. Must not know which
tables there are. Counterparts in Kafka's world: the connection provider and the dialects of Connect's JDBC connector.
"""

from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from typing import Any, Final

from ottla.pipeline.failures import reason
from ottla.pipeline.filesystem import local_path, require_local_parent
from ottla.pipeline.jvm import require_class
from ottla.pipeline.settings import JobError, Settings

# Rows that are fetched at a time: else, before Spark 4.2, PostgreSQL's driver reads the whole answer into memory.
_FETCHED: Final = 1000


@dataclass(frozen=True)
class Dialect:
    """What one kind of database wants to be told in its own way."""

    name: str
    driver: str
    # How many connections may write at a time.
    writers: int
    # The types of columns that are called otherwise than in Spark.
    types: dict[str, str]
    # Has others that say the same wait until the transaction ends, where the database needs that to make a table once.
    lock: str | None
    # What the database's clock said some {seconds} ago, but nothing before {start} unless that is NULL, as a text that
    # {column} of {table} can be compared with.
    clock: str


POSTGRESQL: Final = Dialect(
    "postgresql",
    "org.postgresql.Driver",
    writers=8,
    types={
        "string": "text",
        "binary": "bytea",
        "double": "double precision",
        "float": "real",
        "tinyint": "smallint",
        "timestamp": "timestamp with time zone",
        "timestamp_ntz": "timestamp",
    },
    lock="SELECT pg_advisory_xact_lock(hashtext('ottla'))",
    clock="SELECT CAST(greatest(CURRENT_TIMESTAMP - interval '{seconds} seconds', CAST({start} AS timestamptz))"
    " AS text)",
)
# Times are texts, or milliseconds as its JDBC driver writes them. The clock has whole seconds, as CURRENT_TIMESTAMP:
# else what comes later in a second that was read would be missed.
SQLITE: Final = Dialect(
    "sqlite",
    "org.sqlite.JDBC",
    writers=1,
    types={"string": "text", "binary": "blob", "double": "real", "float": "real", "timestamp_ntz": "timestamp"},
    lock=None,
    clock="SELECT CASE typeof(max({column})) WHEN 'integer'"
    " THEN max(strftime('%s', 'now', '-{seconds} seconds') * 1000, coalesce(CAST({start} AS INTEGER), 0))"
    " ELSE max(strftime('%Y-%m-%d %H:%M:%S', 'now', '-{seconds} seconds'), coalesce({start}, '')) END FROM {table}",
)
_DIALECTS: Final = (POSTGRESQL, SQLITE)


class Database:
    """One database: `url`, `user`, `password`, and `driver` where it cannot be told from the URL."""

    def __init__(self, settings: Settings) -> None:
        self._settings = settings
        self.url = settings.text("url")
        self._login = {key: text for key in ("user", "password") if (text := settings.optional(key)) is not None}
        self.dialect = next((each for each in _DIALECTS if self.url.startswith(f"jdbc:{each.name}:")), None)
        if not self.url.startswith("jdbc:"):
            raise settings.wrong("url", "is to begin with jdbc:")
        self._driver = settings.text("driver", self.dialect.driver if self.dialect else None)
        if self.dialect is SQLITE:
            self._require_file()

    def _require_file(self) -> None:
        name = self.url.removeprefix("jdbc:sqlite:").partition("?")[0]
        path = local_path(name)
        if name in ("", ":memory:") or path is None:
            raise self._settings.wrong("url", "is to name a file: one connection sees nothing of another's memory")
        require_local_parent(self._settings, "url", path)

    def options(self) -> dict[str, str]:
        """What Spark's own JDBC source and sink are told."""
        return {"url": self.url, "driver": self._driver, **self._login}

    def read(self, spark: Any, query: str) -> Any:
        """The rows of a query, as a frame."""
        reader = spark.read.format("jdbc").options(**self.options(), fetchsize=_FETCHED)
        reader = reader.option("dbtable", f"({query}) queried")
        rows = reader.load()
        # SQLite's driver says of all columns of whole numbers that they have 32 bits, and reads the others wrong.
        wider = [f"`{name}` BIGINT" for name, kind in rows.dtypes if kind == "int" and self.dialect is SQLITE]
        return reader.option("customSchema", ", ".join(wider)).load() if wider else rows

    @contextmanager
    def transaction(self, spark: Any) -> "Iterator[Connection]":
        """A connection of the driver's; what is done with it is done when it ends without an error, or not at all."""
        connection = self._connect(spark)
        try:
            connection.setAutoCommit(False)
            yield Connection(connection)
            connection.commit()
        except BaseException:
            # Where the database is gone, what went wrong before says so.
            with suppress(Exception):
                connection.rollback()
            raise
        finally:
            connection.close()

    def _connect(self, spark: Any) -> Any:
        driver = require_class(spark, self._driver, self._settings, "url", self._driver)
        login = spark._jvm.java.util.Properties()
        for key, text in self._login.items():
            login.setProperty(key, text)
        try:
            connection = driver.newInstance().connect(self.url, login)
        except Exception as error:
            raise self._settings.wrong("url", f"leads to no database: {reason(error)}") from None
        if connection is None:
            raise self._settings.wrong("url", f"is none that {self._driver} understands")
        return connection

    def wrong(self, key: str, error: BaseException) -> JobError:
        """The error that says what a database answered, unless it is one already."""
        return error if isinstance(error, JobError) else self._settings.wrong(key, f"failed: {reason(error)}")


class Connection:
    """Statements within a transaction."""

    def __init__(self, connection: Any) -> None:
        self._connection = connection

    def execute(self, sql: str, *values: str | int) -> int:
        """Run a statement; return how many rows it changed."""
        statement = self._prepared(sql, values)
        try:
            return int(statement.executeUpdate())
        finally:
            statement.close()

    def row(self, sql: str, *values: str | int) -> list[str | None] | None:
        """The first row of an answer, as texts, or None where there is none."""
        statement = self._prepared(sql, values)
        try:
            statement.setMaxRows(1)
            found = statement.executeQuery()
            if not found.next():
                return None
            return [found.getString(index + 1) for index in range(found.getMetaData().getColumnCount())]
        finally:
            statement.close()

    def columns(self, sql: str) -> list[str]:
        """The names of the columns of an answer."""
        statement = self._prepared(sql, ())
        try:
            described = statement.executeQuery().getMetaData()
            return [described.getColumnName(index + 1) for index in range(described.getColumnCount())]
        finally:
            statement.close()

    def tables(self, prefix: str) -> list[str]:
        """The names of the tables that begin in some way."""
        found = self._connection.getMetaData().getTables(None, None, f"{prefix}%", None)
        names = []
        while found.next():
            names.append(found.getString("TABLE_NAME"))
        found.close()
        return [name for name in names if name.startswith(prefix)]

    def _prepared(self, sql: str, values: tuple[str | int, ...]) -> Any:
        statement = self._connection.prepareStatement(sql)
        for index, value in enumerate(values):
            if isinstance(value, int):
                statement.setLong(index + 1, value)
            else:
                statement.setString(index + 1, value)
        return statement
