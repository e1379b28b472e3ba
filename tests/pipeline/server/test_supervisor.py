"""Jobs of one server: what is wanted and is its own runs, and is told of."""

import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from ottla.pipeline.server.state import (
    Record,
    Status,
    config_record,
    removal_records,
    restart_record,
    status_record,
    target_record,
)
from ottla.pipeline.server.supervisor import Supervisor, file_name, slot_of

from .jobs import Journal, wait_for
from .memory import Memory

SLOTS = 8
ALL = range(SLOTS)


class Here:
    """A supervisor, on topics in memory."""

    def __init__(self, folder: Path) -> None:
        self.memory = Memory()
        self.journal = Journal(folder / "journal")
        self.directory = folder
        self.supervisor = Supervisor(
            self.memory.state,
            folder,
            self.journal.command,
            lambda name, status: self.memory.write([status_record(name, status)]),
            "here:1",
            SLOTS,
            grace_s=10,
            silence_s=10,
        )
        self.supervisor.start()

    def want(self, *records: Record) -> None:
        self.memory.write(records)

    def is_told(self, name: str, state: str) -> Callable[[], bool]:
        def told() -> bool:
            status = self.memory.state.status(name)
            return status is not None and status.state == state

        return told

    def status(self, name: str) -> Status:
        status = self.memory.state.status(name)
        assert status is not None
        return status


@pytest.fixture
def here(tmp_path: Path) -> Iterator[Here]:
    here = Here(tmp_path)
    yield here
    here.supervisor.stop()
    assert here.journal.running() == []
    assert here.journal.lines("twice") == []


def job(name: str, does: str = "run", mark: str = "-") -> Record:
    return config_record(name, {"name": name, "does": does, "mark": mark, "connector.class": "ottla.pipeline.Job"})


def test_a_job_runs_while_its_slot_is_this_servers(here: Here) -> None:
    here.want(job("a"), job("b"))
    mine = slot_of("a", SLOTS)
    assert slot_of("b", SLOTS) != mine
    here.supervisor.own([mine])
    wait_for(here.is_told("a", "RUNNING"))
    wait_for(lambda: here.journal.running() == ["a"])
    assert here.memory.state.status("b") is None
    here.supervisor.own([slot_of("b", SLOTS)])
    assert here.supervisor.wait_until_given_up(10)
    assert "a" not in here.journal.running()
    wait_for(here.is_told("a", "UNASSIGNED"))
    wait_for(here.is_told("b", "RUNNING"))


def test_a_job_gets_its_config_and_a_checkpoint_of_its_own(here: Here) -> None:
    here.supervisor.own(ALL)
    here.want(job("a", mark="x"))
    wait_for(lambda: here.journal.lines("start"))
    (line,) = here.journal.lines("start")
    assert (line.mark, line.checkpoint) == ("x", "a")
    assert (here.directory / "locks" / "a").exists()


def test_what_a_job_is_told_is_in_no_file_and_on_no_command_line(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    temporary = tmp_path / "temporary"
    temporary.mkdir()
    monkeypatch.setattr(tempfile, "tempdir", str(temporary))
    here = Here(tmp_path / "jobs")
    here.supervisor.own(ALL)
    here.want(job("a", mark="p4ssw0rd"))
    wait_for(lambda: here.journal.lines("start"))
    (line,) = here.journal.lines("start")
    files = [path for path in temporary.rglob("*") if path.is_file() and not path.is_symlink()]
    command = Path(f"/proc/{line.pid}/cmdline").read_bytes()
    here.supervisor.stop()
    assert (line.mark, files) == ("p4ssw0rd", [])
    assert b"p4ssw0rd" not in command


def test_pausing_and_stopping_end_a_job_and_resuming_starts_it(here: Here) -> None:
    here.supervisor.own(ALL)
    here.want(job("a"))
    for number, target in enumerate(["PAUSED", "STOPPED"], start=1):
        wait_for(lambda number=number: len(here.journal.lines("start")) == number)  # type: ignore[misc]
        here.want(target_record("a", target))
        wait_for(here.is_told("a", target))
        assert here.journal.running() == []
        here.want(target_record("a", "STARTED"))
        wait_for(here.is_told("a", "RUNNING"))


def test_another_config_and_a_restart_start_a_job_anew(here: Here) -> None:
    here.supervisor.own(ALL)
    here.want(job("a", mark="1"))
    wait_for(lambda: here.journal.lines("start"))
    here.want(job("a", mark="2"))
    wait_for(lambda: [line.mark for line in here.journal.lines("start")] == ["1", "2"])
    here.want(restart_record("a"))
    wait_for(lambda: [line.mark for line in here.journal.lines("start")] == ["1", "2", "2"])
    assert len(here.journal.running()) == 1


def test_a_failed_job_stays_so_until_it_is_restarted(here: Here) -> None:
    here.supervisor.own(ALL)
    here.want(job("a", "fail"))
    wait_for(here.is_told("a", "FAILED"))
    assert here.status("a").trace == "fake job: there is nothing to do"
    here.want(job("b"))
    wait_for(here.is_told("b", "RUNNING"))
    assert len(here.journal.lines("start", "a")) == 1
    here.want(restart_record("a"))
    wait_for(lambda: len(here.journal.lines("start", "a")) == 2)


def test_a_failed_job_is_tried_again_where_it_comes_next(here: Here) -> None:
    here.supervisor.own(ALL)
    here.want(job("a", "fail"))
    wait_for(here.is_told("a", "FAILED"))
    here.supervisor.own([])
    wait_for(here.is_told("a", "UNASSIGNED"))
    here.supervisor.own(ALL)
    wait_for(here.is_told("a", "FAILED"))
    assert len(here.journal.lines("start")) == 2


def test_a_job_that_is_done_begins_no_more_wherever_it_comes(here: Here) -> None:
    here.supervisor.own(ALL)
    here.want(job("a", "end"))
    wait_for(here.is_told("a", "STOPPED"))
    assert here.status("a").done
    here.supervisor.own([])
    here.supervisor.own(ALL)
    here.want(job("b"))
    wait_for(here.is_told("b", "RUNNING"))
    assert here.status("a").done
    assert len(here.journal.lines("start", "a")) == 1
    here.want(restart_record("a"))
    wait_for(lambda: len(here.journal.lines("start", "a")) == 2)


def test_a_job_that_was_stopped_is_not_done(here: Here) -> None:
    here.supervisor.own(ALL)
    here.want(job("a"), target_record("a", "STOPPED"))
    wait_for(here.is_told("a", "STOPPED"))
    here.want(target_record("a", "STARTED"))
    wait_for(here.is_told("a", "RUNNING"))


def test_of_a_deleted_job_nothing_is_told_any_more(here: Here) -> None:
    here.supervisor.own(ALL)
    here.want(job("a"))
    wait_for(here.is_told("a", "RUNNING"))
    here.want(*removal_records("a"))
    wait_for(lambda: here.memory.state.statuses() == {})
    assert here.journal.running() == []


def test_a_status_that_another_one_wrote_is_corrected_by_who_has_the_job(here: Here) -> None:
    here.supervisor.own(ALL)
    here.want(job("a"))
    wait_for(here.is_told("a", "RUNNING"))
    here.want(status_record("a", Status("UNASSIGNED", "there:1", 0)))
    wait_for(here.is_told("a", "RUNNING"))


def test_what_another_server_has_is_not_for_this_one_to_tell(here: Here) -> None:
    there = Status("RUNNING", "there:1", 0)
    here.want(job("a"), status_record("a", there), job("b"))
    here.supervisor.own([slot_of("b", SLOTS)])
    wait_for(here.is_told("b", "RUNNING"))
    assert here.memory.state.status("a") == there


def test_a_job_with_a_lock_elsewhere_is_unassigned_until_that_one_ends(here: Here) -> None:
    there = Supervisor(
        here.memory.state, here.directory, here.journal.command, lambda *_: None, "there:1", SLOTS,
        grace_s=10, silence_s=10,
    )  # fmt: skip
    there.start()
    there.own(ALL)
    here.want(job("a"))
    wait_for(lambda: here.journal.running() == ["a"])
    here.supervisor.own(ALL)
    wait_for(here.is_told("a", "UNASSIGNED"))
    there.stop()
    wait_for(here.is_told("a", "RUNNING"))
    wait_for(lambda: here.journal.running() == ["a"])


def test_a_server_that_stops_says_that_nobody_has_its_jobs(here: Here) -> None:
    here.supervisor.own(ALL)
    here.want(job("a"), job("b"))
    wait_for(lambda: here.journal.running() == ["a", "b"])
    here.supervisor.stop()
    here.supervisor.own(ALL)
    assert here.is_told("a", "UNASSIGNED")()
    assert here.is_told("b", "UNASSIGNED")()
    assert not here.supervisor.is_alive


def test_a_job_that_cannot_be_started_has_failed(here: Here) -> None:
    name = "n" * 300
    here.supervisor.own(ALL)
    here.want(job(name))
    wait_for(here.is_told(name, "FAILED"))
    assert "File name too long" in here.status(name).trace


@pytest.mark.parametrize(
    ("name", "file"), [("a b", "a b"), ("../x", "%2E.%2Fx"), ("..", "%2E."), ("ä:", "%C3%A4%3A"), ("a.b", "a.b")]
)
def test_no_name_leads_out_of_the_directory(name: str, file: str) -> None:
    assert file_name(name) == file


def test_slots_do_not_depend_on_the_process() -> None:
    assert [slot_of(name, 64) for name in ("a", "orders", "ä")] == [3, 46, 3]
