"""Which log directories failed: the first error of a disk ends the whole directory, until the broker starts anew.

Owns the list. Must not know what is in a directory, nor what is done about it. Whoever waits for a disk tells of its
errors here. Counterpart in Kafka: LogDirFailureChannel.
"""

import errno
import logging
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Final

from ottla.wire.errors import ErrorCode, KafkaError

# What the process or the system lacks. It may have it again in a moment, and no disk has failed.
_NOT_THE_DISKS: Final = frozenset({errno.EMFILE, errno.ENFILE, errno.ENOMEM})

logger = logging.getLogger("org.apache.kafka.storage.internals.log.LogDirFailureChannel")


def storage_error(error: OSError) -> KafkaError:
    """A disk that fails, as an answer."""
    return KafkaError(ErrorCode.KAFKA_STORAGE_ERROR, str(error))


class NoLogDirectoryError(Exception):
    """All log directories failed, or one without which nothing can go on: the broker is to end."""


def metadata_failed(directory: Path) -> NoLogDirectoryError:
    """The end of a broker whose metadata is in a directory that failed."""
    return NoLogDirectoryError(f"Shutdown broker because the metadata log dir {directory} has failed")


class DirectoryFailures:
    """Tells its listener of each directory once."""

    def __init__(self, offline: Iterable[Path] = ()) -> None:
        """`offline`: those that failed before."""
        self.offline: set[Path] = set(offline)
        self.listener: Callable[[Path], None] = lambda directory: None
        """Called in the midst of what failed: it may mark, and has to leave the rest for later."""
        self.vital: Path | None = None
        """The directory without which nothing can go on, if there is one."""

    def failed(self, directory: Path, error: OSError, doing: str = "using") -> None:
        """Take in an error of the disk."""
        if directory not in self.offline and error.errno not in _NOT_THE_DISKS:
            logger.error("Error while %s log dir %s: %s", doing, directory, error)
            self.offline.add(directory)
            self.listener(directory)
