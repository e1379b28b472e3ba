"""Which log directories failed. The first error of a disk takes its directory offline until the broker restarts.

Owns the set of offline directories. Must not know the content of a directory, nor what the listener does. Every module
that uses the disk reports its errors here. Counterpart in Kafka: LogDirFailureChannel.
"""

import errno
import logging
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Final

from ottla.wire.errors import ErrorCode, KafkaError

# The process or the system lacks a resource. No disk has failed.
_NOT_THE_DISKS: Final = frozenset({errno.EMFILE, errno.ENFILE, errno.ENOMEM})

logger = logging.getLogger("org.apache.kafka.storage.internals.log.LogDirFailureChannel")


def storage_error(error: OSError) -> KafkaError:
    """Return KAFKA_STORAGE_ERROR for an error of the disk."""
    return KafkaError(ErrorCode.KAFKA_STORAGE_ERROR, str(error))


class NoLogDirectoryError(Exception):
    """All log directories failed, or the vital one. The broker must shut down."""


def metadata_failed(directory: Path) -> NoLogDirectoryError:
    """Return the error for a failed directory that holds the cluster's metadata."""
    return NoLogDirectoryError(f"Shutdown broker because the metadata log dir {directory} has failed")


class DirectoryFailures:
    """The offline directories. The listener is called once for each."""

    def __init__(self, offline: Iterable[Path] = ()) -> None:
        """`offline`: the directories that failed before."""
        self.offline: set[Path] = set(offline)
        self.listener: Callable[[Path], None] = lambda directory: None
        """Called within the failed operation, so it may only note the directory and must act later."""
        self.vital: Path | None = None
        """The directory with the cluster's metadata, if there is one. Without it the broker must shut down."""

    def failed(self, directory: Path, error: OSError, doing: str = "using") -> None:
        """Take `directory` offline, unless the process merely lacks a resource."""
        if directory not in self.offline and error.errno not in _NOT_THE_DISKS:
            logger.error("Error while %s log dir %s: %s", doing, directory, error)
            self.offline.add(directory)
            self.listener(directory)

    @contextmanager
    def storage(self, directory: Path, doing: str = "using") -> Iterator[None]:
        """Report an OSError as the failure of `directory`, and raise it as KAFKA_STORAGE_ERROR."""
        try:
            yield
        except OSError as error:
            self.failed(directory, error, doing)
            raise storage_error(error) from error
