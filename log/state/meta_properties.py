"""meta.properties and .lock of a log directory: its broker and cluster, and the lock against other brokers.

Owns these two files. Must not know logs. Counterpart in Kafka: MetaProperties (version 0, the form of ZooKeeper mode),
MetaPropertiesEnsemble, FileLock.
"""

import fcntl
import logging
import os
import struct
import time
from collections.abc import Callable, Sequence
from pathlib import Path

from ottla.log.state.checkpoint import replace_file, sync_directory
from ottla.log.state.directory_failures import NoLogDirectoryError

logger = logging.getLogger("kafka.log.LogManager")

META_PROPERTIES_FILE = "meta.properties"
LOCK_FILE = ".lock"

_VERSIONS = ("0", "1")
_FLOCK = struct.Struct("hhqqi4x")  # struct flock of Linux: type, whence, start, length, pid


class DirectoryInUse(Exception):  # noqa: N818 - what it says
    """Another broker, of this kind or Kafka's, has the log directory open."""


class InconsistentMetaPropertiesError(Exception):
    """The log directory belongs to another broker or another cluster."""


class DirectoryLocks:
    """The `.lock` files of log directories, held from construction to `release`.

    The locks exclude Kafka's (fcntl). They belong to the open file, not to the process, so two brokers in one process
    exclude each other too.
    """

    def __init__(self, directories: Sequence[Path]) -> None:
        """Lock all usable directories and leave out the others; NoLogDirectoryError if none is usable."""
        self._fds: dict[Path, int] = {}
        try:
            for directory in directories:
                self._take(directory)
        except BaseException:
            self.release()
            raise
        if not self._fds:
            names = ", ".join(map(str, directories))
            reason = f"none of the specified log dirs from {names} can be created or validated"
            raise NoLogDirectoryError(f"Shutdown broker because {reason}")

    @property
    def directories(self) -> Sequence[Path]:
        """The locked directories."""
        return tuple(self._fds)

    def _take(self, directory: Path) -> None:
        try:
            self._lock(directory)
            _check_form(read_meta_properties(directory) or {}, directory / META_PROPERTIES_FILE)
        except (OSError, ValueError) as error:
            logger.error("Log directory %s is offline, the broker starts without it: %s", directory, error)
            self.release_one(directory)

    def _lock(self, directory: Path) -> None:
        if not directory.exists():
            logger.info("Log directory %s not found, creating it.", directory)
            directory.mkdir(parents=True)
            sync_directory(directory.absolute().parent)
        fd = os.open(directory / LOCK_FILE, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o644)
        try:
            fcntl.fcntl(fd, fcntl.F_OFD_SETLK, _FLOCK.pack(fcntl.F_WRLCK, os.SEEK_SET, 0, 0, 0))
        except (BlockingIOError, PermissionError):
            os.close(fd)
            raise DirectoryInUse(f"log directory {directory} is in use by another broker") from None
        except BaseException:
            os.close(fd)
            raise
        self._fds[directory] = fd

    def release_one(self, directory: Path) -> None:
        """Release the lock of one directory, if it is held."""
        fd = self._fds.pop(directory, None)
        if fd is not None:
            os.close(fd)

    def release(self) -> None:
        """Release all locks."""
        for directory in self.directories:
            self.release_one(directory)


def is_locked(directory: Path) -> bool:
    """Whether a broker on this host has the directory open. Takes no lock and creates no file."""
    try:
        fd = os.open(directory / LOCK_FILE, os.O_RDONLY | os.O_CLOEXEC)
    except FileNotFoundError:
        return False
    try:
        found = fcntl.fcntl(fd, fcntl.F_OFD_GETLK, _FLOCK.pack(fcntl.F_RDLCK, os.SEEK_SET, 0, 0, 0))
    finally:
        os.close(fd)
    return bool(_FLOCK.unpack(found)[0] != fcntl.F_UNLCK)


def read_meta_properties(directory: Path) -> dict[str, str] | None:
    """Return the properties, None for a new directory."""
    try:
        text = (directory / META_PROPERTIES_FILE).read_text("utf-8")
    except FileNotFoundError:
        return None
    lines = (line for line in map(str.strip, text.splitlines()) if line and line[0] not in "#!")
    pairs = (line.replace("\\", "").partition("=") for line in lines)  # Java escapes a colon, say
    return {key.strip(): value.strip() for key, _, value in pairs}


def _write_meta_properties(directory: Path, properties: dict[str, str]) -> None:
    comments = ["#", time.strftime("#%a %b %d %H:%M:%S UTC %Y", time.gmtime())]  # Kafka's comment is empty
    lines = comments + [f"{key}={value}" for key, value in properties.items()]
    replace_file(directory / META_PROPERTIES_FILE, "".join(f"{line}\n" for line in lines).encode())


def take_from_kraft(directory: Path) -> None:
    """Rewrite meta.properties of KRaft mode in the form of ZooKeeper mode, for the same broker and cluster."""
    properties = read_meta_properties(directory)
    if properties is not None and properties.get("version") == "1":
        properties["broker.id"] = properties.pop("node.id")
        _write_meta_properties(directory, properties | {"version": "0"})


def check_meta_properties(
    directories: Sequence[Path], broker_id: int, cluster_id: str, failed: Callable[[Path, OSError, str], None]
) -> None:
    """Write meta.properties of new directories; InconsistentMetaPropertiesError if one belongs to another broker.

    `failed` is called for each directory that cannot be written.
    """
    expected = {"version": "0", "broker.id": str(broker_id), "cluster.id": cluster_id}
    found = {directory: read_meta_properties(directory) for directory in directories}
    for directory, properties in found.items():
        _check_owner(directory / META_PROPERTIES_FILE, expected | (properties or {}), expected)
    for directory, properties in found.items():
        wanted = (properties or {}) | expected
        if properties != wanted:
            try:
                _write_meta_properties(directory, wanted)
            except OSError as error:
                failed(directory, error, "writing meta.properties of")


def _check_form(found: dict[str, str], file: Path) -> None:
    """Raise ValueError, in Kafka's words, for malformed properties."""
    version, broker_id = found.get("version", "0"), found.get("broker.id", "0")
    if not version.isdecimal():
        raise ValueError(f"Invalid meta.properties version string '{version}'")
    if version not in _VERSIONS:
        raise ValueError(f"Unknown meta.properties version number {version}")
    if not broker_id.isdecimal():
        raise ValueError(f"Unable to read broker.id as a base-10 number, in {file}.")


def _check_owner(file: Path, found: dict[str, str], expected: dict[str, str]) -> None:
    """Raise InconsistentMetaPropertiesError in Kafka's words and order."""
    fault = None
    if found["version"] != expected["version"]:
        fault = (
            f"Found unexpected version in {file}. ZK-based brokers that are not migrating only support version 0 "
            "(which is implicit when the `version` field is missing)."
        )
    elif found["cluster.id"] != expected["cluster.id"]:
        fault = f"Invalid cluster.id in: {file}. Expected {expected['cluster.id']}, but read {found['cluster.id']}"
    elif found["broker.id"] != expected["broker.id"]:
        fault = (
            f"Stored node id {found['broker.id']} doesn't match previous node id {expected['broker.id']} in {file}. "
            "If you moved your data, make sure your configured node id matches. "
            "If you intend to create a new node, you should remove all data in your data directories."
        )
    if fault is not None:
        raise InconsistentMetaPropertiesError(fault)
