"""The process that cleans, as the loop sees it."""

import errno
from pathlib import Path

import pytest
import trio

from ottla.broker.upkeep.compaction_process import CleanerChild, CleanerEnded
from ottla.log.compaction.cleaner import CleaningJob, CleaningStats

pytestmark = pytest.mark.slow

PATIENCE_S = 120


def job(directory: Path) -> CleaningJob:
    return CleaningJob(str(directory), [], 0, 0, {}, 0, 0, 100, 100, 100, 1, 1)


async def test_the_process_is_started_for_the_first_job_and_again_after_it_was_closed(tmp_path: Path) -> None:
    child = CleanerChild()
    await child.close()
    with trio.fail_after(PATIENCE_S):
        for _ in range(2):
            for _ in range(2):
                await child.begin(job(tmp_path), 1e308)
                assert isinstance(await child.outcome(), CleaningStats)
            await child.close()


async def test_an_error_of_the_process_is_raised_in_the_broker(tmp_path: Path) -> None:
    child = CleanerChild()
    with trio.fail_after(PATIENCE_S):
        broken = job(tmp_path)._replace(segments=[(0, 10, 0, 0)], end_offset=9)  # type: ignore[list-item]
        await child.begin(broken, 1e308)
        with pytest.raises(OSError, match="No such file") as failed:
            await child.outcome()
        assert failed.value.errno == errno.ENOENT
        await child.begin(job(tmp_path), 1e308)
        assert isinstance(await child.outcome(), CleaningStats)
    await child.close()


async def test_the_end_of_the_process_is_raised(tmp_path: Path) -> None:
    child = CleanerChild()
    with trio.fail_after(PATIENCE_S):
        await child.begin(job(tmp_path), 1e308)
        await child.outcome()
        assert child._process is not None
        child._process.kill()
        await child._process.wait()
        with pytest.raises(CleanerEnded):
            await child.outcome()
        with pytest.raises(CleanerEnded):
            await child.begin(job(tmp_path), 1e308)
    await child.close()
