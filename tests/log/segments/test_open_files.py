import gc
import os
import resource
from contextlib import suppress
from pathlib import Path

import pytest

from ottla.log.segments.open_files import FileRegion, LazyFile, OpenFiles


def _files(tmp_path: Path, limit: int, count: int) -> tuple[OpenFiles, list[LazyFile]]:
    pool = OpenFiles(limit)
    files = [LazyFile(pool, f"{tmp_path}/{number}") for number in range(count)]
    for number, file in enumerate(files):
        os.pwrite(file.create().fd, str(number).encode(), 0)
    return pool, files


def _open_below(folder: Path) -> int:
    """Return how many files of a folder this process has open."""
    targets = []
    for descriptor in Path("/proc/self/fd").iterdir():
        with suppress(OSError):
            targets.append(descriptor.readlink())
    return sum(target.is_relative_to(folder) for target in targets)


def _is_open(fd: int) -> bool:
    try:
        os.fstat(fd)
    except OSError:
        return False
    return True


def _not_told(error: OSError) -> None:
    raise error


def test_no_more_files_are_open_than_the_limit_allows(tmp_path: Path) -> None:
    pool, files = _files(tmp_path, 3, 20)
    assert len(pool) == 3
    assert _open_below(tmp_path) == 3
    assert [os.pread(file.open().fd, 9, 0) for file in files] == [str(number).encode() for number in range(20)]
    assert _open_below(tmp_path) == 3


def test_the_least_recently_used_file_is_closed_first(tmp_path: Path) -> None:
    pool, files = _files(tmp_path, 3, 3)
    descriptors = [file.open().fd for file in files]
    files[0].open()
    another = LazyFile(pool, f"{tmp_path}/another")
    held = another.create()
    assert len(pool) == 3
    assert files[0].open().fd == descriptors[0]
    assert files[2].open().fd == descriptors[2]
    assert held.fd == another.open().fd
    assert not _is_open(descriptors[1])


def test_a_region_stays_readable_when_its_file_is_evicted_and_holds_no_descriptor(tmp_path: Path) -> None:
    pool, files = _files(tmp_path, 1, 20)
    regions = [FileRegion(file, 0, 2, _not_told) for file in files]
    assert _open_below(tmp_path) == 1
    assert [region.read() for region in regions] == [str(number).encode() for number in range(20)]
    assert [os.pread(region.fileno(), 2, 0) for region in regions] == [str(number).encode() for number in range(20)]
    assert all(region.is_cached() for region in regions)
    assert _open_below(tmp_path) == len(pool) == 1


def test_a_region_of_a_file_deleted_while_open_stays_readable(tmp_path: Path) -> None:
    pool, files = _files(tmp_path, 1, 2)
    region, another = FileRegion(files[1], 0, 1, _not_told), FileRegion(files[1], 0, 1, _not_told)
    files[1].delete()
    files[0].open()
    fd = region.fileno()
    assert (region.read(), another.read()) == (b"1", b"1")
    del region
    assert _is_open(fd)
    del another
    gc.collect()
    assert not _is_open(fd)
    assert len(pool) == 1


def test_a_region_never_reads_from_the_successor_of_its_file(tmp_path: Path) -> None:
    pool, files = _files(tmp_path, 1, 2)
    # The second is open, the first is evicted.
    regions = [FileRegion(file, 0, 1, _not_told) for file in files]
    for file in reversed(files):
        file.delete()
        os.pwrite(LazyFile(pool, file.path).create().fd, b"x", 0)
    assert regions[1].read() == b"1"
    with pytest.raises(FileNotFoundError):
        regions[0].read()
    with pytest.raises(FileNotFoundError):
        regions[0].fileno()


def test_the_reader_of_a_region_outlives_the_region(tmp_path: Path) -> None:
    _, files = _files(tmp_path, 1, 2)
    read = FileRegion(files[0], 0, 1, _not_told).reader()
    files[0].delete()
    files[1].open()
    assert read() == b"0"


def test_a_region_of_a_file_that_cannot_be_opened_raises_when_it_is_made(tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError):
        FileRegion(LazyFile(OpenFiles(1), f"{tmp_path}/missing"), 0, 1, _not_told)


def test_files_are_closed_when_the_process_is_out_of_descriptors(tmp_path: Path) -> None:
    pool, files = _files(tmp_path, 200, 100)
    before = resource.getrlimit(resource.RLIMIT_NOFILE)
    highest = max(int(name) for name in os.listdir("/proc/self/fd"))  # noqa: PTH208
    held = []
    resource.setrlimit(resource.RLIMIT_NOFILE, (highest + 1, before[1]))
    try:
        with suppress(OSError):
            while True:
                held.append(os.open(os.devnull, os.O_RDONLY))
        LazyFile(pool, f"{tmp_path}/another").create()
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, before)
        for descriptor in held:
            os.close(descriptor)
    assert len(pool) < 100
    assert [os.pread(file.open().fd, 9, 0) for file in files] == [str(number).encode() for number in range(100)]


def test_a_duplicate_outlives_its_original(tmp_path: Path) -> None:
    _, files = _files(tmp_path, 1, 1)
    duplicate = files[0].open().duplicate()
    files[0].release()
    assert os.pread(duplicate.fd, 1, 0) == b"0"


def test_a_region_just_written_is_cached_and_has_its_length(tmp_path: Path) -> None:
    _, files = _files(tmp_path, 1, 1)
    os.pwrite(files[0].open().fd, bytes(300_000), 0)
    region = FileRegion(files[0], 10, 200_000, _not_told)
    assert len(region) == 200_000
    assert region.is_cached()
    assert FileRegion(files[0], 0, 0, _not_told).is_cached()


def test_a_region_dropped_from_the_page_cache_is_not_cached(tmp_path: Path) -> None:
    _, files = _files(tmp_path, 1, 1)
    fd = files[0].open().fd
    os.pwrite(fd, os.urandom(1 << 20), 0)
    os.fsync(fd)
    os.posix_fadvise(fd, 0, 0, os.POSIX_FADV_DONTNEED)
    region = FileRegion(files[0], 0, 1 << 20, _not_told)
    if region.is_cached():  # a file system in memory keeps everything
        assert os.statvfs(tmp_path).f_bsize
    else:
        region.read()
        assert region.is_cached()
