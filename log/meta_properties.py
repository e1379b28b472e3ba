"""meta.properties and .lock of a log directory: whose it is, and that nobody else has it open.

Owns these two files. Must not know logs. Counterpart in Kafka: MetaProperties (version 0, the form of ZooKeeper mode),
FileLock.
"""

import fcntl
import os
import struct
import time
from collections.abc import Sequence
from pathlib import Path

from ottla.log.checkpoint import replace_file, sync_directory

META_PROPERTIES_FILE = "meta.properties"
LOCK_FILE = ".lock"

_FLOCK = struct.Struct("hhqqi4x")  # struct flock of Linux: type, whence, start, length, pid


class DirectoryInUse(Exception):  # noqa: N818 - what it says
    """Another broker, ours or Kafka's, has the log directory open."""


class InconsistentMetaPropertiesError(Exception):
    """The log directory belongs to another broker or another cluster."""


class DirectoryLocks:
    """The `.lock` files of all log directories, held from construction to `release`.

    The locks are of the kind that Kafka's (fcntl) collide with, but belong to the open file, not to the process: two
    brokers of one process exclude each other too.
    """

    def __init__(self, directories: Sequence[Path]) -> None:
        self._fds: list[int] = []
        try:
            for directory in directories:
                self._lock(directory)
        except BaseException:
            self.release()
            raise

    def _lock(self, directory: Path) -> None:
        if not directory.is_dir():
            directory.mkdir(parents=True)
            sync_directory(directory.absolute().parent)
        fd = os.open(directory / LOCK_FILE, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o644)
        self._fds.append(fd)
        try:
            fcntl.fcntl(fd, fcntl.F_OFD_SETLK, _FLOCK.pack(fcntl.F_WRLCK, os.SEEK_SET, 0, 0, 0))
        except (BlockingIOError, PermissionError):
            raise DirectoryInUse(f"log directory {directory} is in use by another broker") from None

    def release(self) -> None:
        """Let others have the directories."""
        while self._fds:
            os.close(self._fds.pop())


def read_meta_properties(directory: Path) -> dict[str, str] | None:
    """The properties, None where the directory is new."""
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


def check_meta_properties(directory: Path, broker_id: int, cluster_id: str) -> None:
    """Mark a new directory as this broker's; refuse one that is another's."""
    found = read_meta_properties(directory)
    properties = dict(found or {})
    version = properties.setdefault("version", "0")
    if version != "0":
        raise InconsistentMetaPropertiesError(
            f"{directory} has meta.properties of version {version}: a KRaft broker wrote it"
        )
    for key, expected in (("broker.id", str(broker_id)), ("cluster.id", cluster_id)):
        if properties.setdefault(key, expected) != expected:
            raise InconsistentMetaPropertiesError(f"{directory} has {key} {properties[key]}, this broker {expected}")
    if properties != found:
        _write_meta_properties(directory, properties)
