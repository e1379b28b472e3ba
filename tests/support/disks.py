"""File systems of a test's own: one whose power can be cut, one that is full.

Counterpart: none; Kafka's system tests kill processes only.
"""

import fcntl
import os
import struct
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

import pytest

# EXT4_IOC_SHUTDOWN, and what it is to do: nothing that is still in memory reaches the disk, not even its journal.
_SHUTDOWN = 0x8004587D
_NO_LOG_FLUSH = 2
_SUDO = () if os.getuid() == 0 else ("sudo", "-n")


class Disk:
    """An ext4 file system in a file, mounted at `path`."""

    def __init__(self, folder: Path, size_mib: int) -> None:
        """OSError or CalledProcessError where the machine does not allow that."""
        self.path = folder / "disk"
        self._image = folder / "disk.0.ext4"
        self._cuts = 0
        self.path.mkdir()
        with self._image.open("wb") as file:
            file.truncate(size_mib << 20)
        _run("mkfs.ext4", "-q", "-F", str(self._image))
        self._mount()

    def _mount(self) -> None:
        _run("mount", "-o", "loop", str(self._image), str(self.path))

    def unmount(self) -> None:
        """Let go of it. Where a process holds on to it, here or in another namespace, it goes when that one ends."""
        if self.path.is_mount():
            _run("umount", "--lazy", str(self.path))

    def power_on(self) -> None:
        """Mount what the power cut left."""
        # A copy: of the file itself, whoever still holds the old mount would give us that one again.
        self._cuts += 1
        left, self._image = self._image, self._image.with_name(f"disk.{self._cuts}.ext4")
        _run("cp", "--sparse=always", str(left), str(self._image))
        self.unmount()
        left.unlink()
        self._mount()

    def cut_power(self) -> None:
        """From now on no write reaches it."""
        root = os.open(self.path, os.O_RDONLY)
        try:
            fcntl.ioctl(root, _SHUTDOWN, struct.pack("I", _NO_LOG_FLUSH))
        finally:
            os.close(root)


@contextmanager
def disk(folder: Path, size_mib: int) -> Iterator[Disk]:
    """A new one. Skips the test where the machine does not allow that."""
    try:
        made = Disk(folder, size_mib)
    except (OSError, subprocess.CalledProcessError) as error:
        why = error.stderr.decode().strip() if isinstance(error, subprocess.CalledProcessError) else error
        pytest.skip(f"this machine mounts no file system of a test's own: {why}")
    try:
        yield made
    finally:
        made.unmount()


@contextmanager
def small_disk(folder: Path, size: int) -> Iterator[Path]:
    """A file system in memory, of so many bytes. Skips the test where the machine does not allow that."""
    path = folder / "disk"
    path.mkdir()
    command = [*_SUDO, "mount", "-t", "tmpfs", "-o", f"size={size},mode=0777", "none", str(path)]
    mounted = subprocess.run(command, capture_output=True)
    if mounted.returncode:
        pytest.skip(f"no file system can be mounted here: {mounted.stderr.decode().strip()}")
    try:
        yield path
    finally:
        _run(*_SUDO, "umount", "-l", str(path))


def fill(disk: Path, leave: int) -> Path:
    """Take all room but so many bytes; return the file that takes it."""
    ballast = disk / "ballast"
    with ballast.open("wb") as file, suppress(OSError):  # others take room meanwhile
        while True:
            room = os.statvfs(disk)
            free = room.f_bavail * room.f_frsize - leave
            if free <= 0:
                break
            file.write(bytes(min(free, 1 << 20)))
            file.flush()
    return ballast


def _run(*command: str) -> None:
    subprocess.run(command, check=True, capture_output=True, timeout=120)
