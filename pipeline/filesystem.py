"""A folder on whatever file system Spark can reach, and the few things that files are moved with.

Owns the calls to Hadoop's FileSystem. Must not know what the files hold. Everything is named relative to the folder,
with "/" between names. No counterpart in Kafka.
"""

import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

from ottla.pipeline.settings import Settings

_GLOB = re.compile(r"[*?\[{]")
_SPECIAL = re.compile(r"([*?\[\]{}\\])")
_SCHEME = re.compile(r"[A-Za-z][A-Za-z0-9+.-]*:")


def local_path(path: str) -> Path | None:
    """The path on this machine that is meant, or None where another file system is."""
    path = re.sub(r"\Afile:(//(?=/))?", "", path)
    return None if _SCHEME.match(path) else Path(path)


def require_parent(settings: Settings, key: str) -> str:
    """A path that is to be written to; the folder that it is to lie in has to be there."""
    text = settings.text(key)
    path = local_path(text)
    if path is not None:
        require_local_parent(settings, key, path)
    return text


def require_local_parent(settings: Settings, key: str, path: Path) -> None:
    """The folder that something on this machine is to lie in has to be there."""
    folder = path.absolute().parent
    if not _is_so(settings, key, folder.is_dir):
        raise settings.wrong(key, f"is to lie in {folder}, which is not there")


def require_found(settings: Settings, key: str) -> str:
    """A path that is to be read, perhaps with a pattern in it; what stands before the pattern has to be there."""
    text = settings.text(key)
    before = _GLOB.split(text, maxsplit=1)[0]
    path = local_path(before if before == text else before.rpartition("/")[0] or (before[:1] or "."))
    if path is not None and not _is_so(settings, key, path.exists):
        raise settings.wrong(key, f"names {path}, which is not there")
    return text


def _is_so(settings: Settings, key: str, look: Callable[[], bool]) -> bool:
    try:
        return look()
    except OSError as error:
        raise settings.wrong(key, f"is a path that cannot be looked at: {error.strerror}") from None


def _is_hidden(name: str) -> bool:
    # A folder of rows that have some value in a column is not, whatever the column is called.
    return name.startswith(("_", ".")) and "=" not in name


class Folder:
    """A folder that may not be there yet."""

    def __init__(self, spark: Any, path: str) -> None:
        self._jvm = spark._jvm
        root = self._jvm.org.apache.hadoop.fs.Path(path)
        self._files = root.getFileSystem(spark._jsc.hadoopConfiguration())
        self._root: str = self._files.makeQualified(root).toString().rstrip("/")

    def full(self, name: str) -> str:
        """The whole path of what lies in the folder."""
        return f"{self._root}/{name}"

    def pattern(self, name: str) -> str:
        """The same for who takes paths for patterns, as Spark does where it reads."""
        return _SPECIAL.sub(r"\\\1", self.full(name))

    def names(self, name: str) -> list[str]:
        """What lies directly in a folder, in order; nothing where there is no folder."""
        if not self.exists(name):
            return []
        return sorted(status.getPath().getName() for status in self._files.listStatus(self._path(name)))

    def all_files(self, name: str) -> list[str]:
        """The files in a folder and all folders below, relative to it, in order; not those that are hidden."""
        if not self.exists(name):
            return []
        found, listing = [], self._files.listFiles(self._path(name), True)
        while listing.hasNext():
            found.append(listing.next().getPath().toString().removeprefix(self.full(name) + "/"))
        return sorted(each for each in found if not any(map(_is_hidden, each.split("/"))))

    def exists(self, name: str) -> bool:
        """Whether there is such a file or folder."""
        return bool(self._files.exists(self._path(name)))

    def move(self, name: str, target: str) -> None:
        """Give a file or folder another name, at once, in a folder that is made where it is missing."""
        path = self._path(target)
        if self.exists(target):
            raise FileExistsError(f"{self.full(target)} is there already")
        self._files.mkdirs(path.getParent())
        if not self._files.rename(self._path(name), path):
            raise OSError(f"{self.full(name)} could not be renamed to {self.full(target)}")

    def make(self, name: str) -> None:
        """Make a folder, unless it is there, and those that it lies in."""
        self._files.mkdirs(self._path(name))

    def remove(self, name: str) -> None:
        """Remove a file, or a folder with all that is in it."""
        self._files.delete(self._path(name), True)

    def write(self, name: str, text: str) -> None:
        """Write a small file."""
        stream = self._files.create(self._path(name))
        try:
            stream.write(bytearray(text.encode()))
        finally:
            stream.close()

    def read(self, name: str) -> str:
        """Read a small file."""
        stream = self._files.open(self._path(name))
        try:
            return bytes(stream.readAllBytes()).decode()
        finally:
            stream.close()

    def _path(self, name: str) -> Any:
        return self._jvm.org.apache.hadoop.fs.Path(self.full(name))
