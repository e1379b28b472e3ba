"""File systems for tests: one with a power cut, one that is full.

Counterpart in Kafka: none, because Kafka's system tests only kill processes.
"""

import fcntl
import os
import struct
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

import pytest

# EXT4_IOC_SHUTDOWN with EXT4_GOING_FLAGS_NOLOGFLUSH: nothing in memory reaches the disk, not even the journal.
_SHUTDOWN = 0x8004587D
_NO_LOG_FLUSH = 2
_SUDO = () if os.getuid() == 0 else ("sudo", "-n")


class Disk:
    """An ext4 file system in a file, mounted at `path`."""

    def __init__(self, folder: Path, size_mib: int) -> None:
        """OSError or CalledProcessError if the machine does not allow mounts."""
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
        """Unmount it. If a process still uses it, the kernel unmounts it when the process ends."""
        if self.path.is_mount():
            _run("umount", "--lazy", str(self.path))

    def power_on(self) -> None:
        """Mount the file system as the power cut left it."""
        # Mount a copy, because while a process holds the old mount, the kernel would return the old mount.
        self._cuts += 1
        left, self._image = self._image, self._image.with_name(f"disk.{self._cuts}.ext4")
        _run("cp", "--sparse=always", str(left), str(self._image))
        self.unmount()
        left.unlink()
        self._mount()

    def cut_power(self) -> None:
        """Cut the power: no later write reaches the disk."""
        root = os.open(self.path, os.O_RDONLY)
        try:
            fcntl.ioctl(root, _SHUTDOWN, struct.pack("I", _NO_LOG_FLUSH))
        finally:
            os.close(root)


@contextmanager
def disk(folder: Path, size_mib: int) -> Iterator[Disk]:
    """Return a new disk; skip the test if the machine does not allow mounts."""
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
    """Return a file system in memory of `size` bytes; skip the test if the machine does not allow mounts."""
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
    """Fill the disk but for `leave` bytes; return the file that fills it."""
    ballast = disk / "ballast"
    with ballast.open("wb") as file, suppress(OSError):  # other processes may fill it meanwhile
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
