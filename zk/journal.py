"""The embedded tree on disk: one SQLite database that a kill at any point leaves whole.

Plain blocking Python, to be called off the loop, one call at a time. Owns the database's schema and the durability of a
commit. Must not know what a znode means. It holds no ephemeral znodes, because these end with the process.
Counterpart: ZooKeeper's FileTxnSnapLog.
"""

import os
import sqlite3
from collections.abc import Sequence
from pathlib import Path
from typing import Final

from ottla.zk.store import StoreFailedError
from ottla.zk.tree import Tree, Znode

# "OTLA": other programs recognise the file by it.
_APPLICATION_ID: Final = 0x4F544C41
_SCHEMA_VERSION: Final = 1
_UPSERT: Final = "INSERT OR REPLACE INTO znodes VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?)"
_COLUMNS: Final = "path, data, czxid, mzxid, pzxid, ctime, mtime, version, creates"

Row = tuple[str, bytes, int, int, int, int, int, int, int]


class StoreInUseError(StoreFailedError):
    """Another process has the database open."""


class JournalFailedError(StoreFailedError):
    """The disk refused a write. The process has to end, because only the next `open` shows what the database holds."""


def row_of(path: str, node: Znode) -> Row:
    """Return a znode's row in the database."""
    return (path, *node[:8])


class Journal:
    """The open database."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._database: sqlite3.Connection | None = None

    def open(self) -> Tree:
        """Open or create the database and return its tree. StoreInUseError: another process has it open."""
        is_new = not self._path.exists()
        try:
            # Calls come from several worker threads, but never two at a time.
            database = sqlite3.connect(self._path, timeout=0, isolation_level=None, check_same_thread=False)
            try:
                tree = _read(database, self._path)
                if is_new:
                    _sync_directory(self._path.parent)
            except BaseException:
                database.close()
                raise
        except sqlite3.OperationalError as error:
            if error.sqlite_errorcode & 0xFF in (sqlite3.SQLITE_BUSY, sqlite3.SQLITE_LOCKED):
                raise StoreInUseError(f"{self._path} is in use by another process") from error
            raise StoreFailedError(f"{self._path}: {error}") from error
        except sqlite3.DatabaseError as error:
            raise StoreFailedError(f"{self._path}: {error}") from error
        self._database = database
        return tree

    def commit(self, changed: Sequence[Row], deleted: Sequence[str], zxid: int) -> None:
        """Write changes in one transaction, and return when they are on disk."""
        database = self._database
        assert database is not None
        try:
            database.execute("BEGIN IMMEDIATE")
            database.executemany("DELETE FROM znodes WHERE path = ?", [(path,) for path in deleted])
            database.executemany(_UPSERT, changed)
            database.execute("UPDATE last SET zxid = ?", (zxid,))
            database.execute("COMMIT")
        except sqlite3.Error as error:
            raise self._failed(error) from error

    def checkpoint(self) -> None:
        """Write all commits from the -wal into the database file, so that a copy of this file holds them."""
        assert self._database is not None
        try:
            self._database.execute("PRAGMA wal_checkpoint(PASSIVE)")
        except sqlite3.Error as error:
            raise self._failed(error) from error

    def _failed(self, error: sqlite3.Error) -> JournalFailedError:
        return JournalFailedError(f"{self._path} cannot be written: {error}")

    def close(self) -> None:
        """Close the database."""
        database, self._database = self._database, None
        if database is not None:
            database.close()


def _read(database: sqlite3.Connection, path: Path) -> Tree:
    # EXCLUSIVE needs no file of shared memory and refuses a second process. FULL: each commit is one fsync.
    database.execute("PRAGMA locking_mode = EXCLUSIVE")
    database.execute("PRAGMA journal_mode = WAL")
    database.execute("PRAGMA synchronous = FULL")
    database.execute("BEGIN IMMEDIATE")
    (version,) = database.execute("PRAGMA user_version").fetchone()
    if version == 0:
        database.execute(f"PRAGMA application_id = {_APPLICATION_ID}")
        database.execute(f"PRAGMA user_version = {_SCHEMA_VERSION}")
        database.execute(
            "CREATE TABLE znodes (path TEXT PRIMARY KEY, data BLOB NOT NULL, czxid INTEGER NOT NULL,"
            " mzxid INTEGER NOT NULL, pzxid INTEGER NOT NULL, ctime INTEGER NOT NULL, mtime INTEGER NOT NULL,"
            " version INTEGER NOT NULL, creates INTEGER NOT NULL) WITHOUT ROWID"
        )
        database.execute("CREATE TABLE last (zxid INTEGER NOT NULL)")
        database.execute("INSERT INTO last VALUES (0)")
    elif version != _SCHEMA_VERSION:
        raise StoreFailedError(f"{path} is of version {version}; this broker knows version {_SCHEMA_VERSION}")
    database.execute("COMMIT")
    (zxid,) = database.execute("SELECT zxid FROM last").fetchone()
    rows = database.execute(f"SELECT {_COLUMNS} FROM znodes")
    return Tree(((row[0], Znode._make((*row[1:], 0, 0))) for row in rows), zxid)


def _sync_directory(directory: Path) -> None:
    descriptor = os.open(directory, os.O_RDONLY | os.O_DIRECTORY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
