"""The progress of a copied partition, with acknowledgements in any order."""

import random

import pytest

from ottla.client.producing.batches import Completion, Delivery
from ottla.scripts.terminal.records.tracks import Track

DONE = Delivery("copy", 0, 0, 0)


@pytest.mark.trials(few=20, soak=2000)
def test_the_position_is_never_after_a_pending_record_and_never_decreases(trials: int) -> None:
    for _ in range(trials):
        start = random.randrange(5)
        track, waiting = Track(start), dict[int, Completion]()
        offset = position = start
        for _ in range(random.choice([10, 600])):
            if random.random() < 0.6:
                offset += random.choice([0, 0, 7])
                if random.random() < 0.8:
                    waiting[offset] = track.send(offset)
                offset += 1
                track.reach(offset)
            elif waiting:
                waiting.pop(random.choice(list(waiting)))(DONE)
            assert position <= track.position <= min(waiting, default=offset)
            position = track.position
        for complete in waiting.values():
            complete(DONE)
        assert track.position == track.reached == offset


def test_unwanted_records_do_not_block_the_position() -> None:
    track = Track(10)
    track.reach(500)
    assert (track.position, track.reached, track.sent) == (500, 500, 0)


def test_many_records_are_committed_in_pieces() -> None:
    track = Track(0)
    completions = []
    for offset in range(1000):
        completions.append(track.send(offset))
        track.reach(offset + 1)
    for each in completions[:600]:
        each(DONE)
    assert 0 < track.position <= 600
    for each in completions[600:]:
        each(DONE)
    assert (track.position, track.copied) == (1000, 1000)


def test_the_position_stays_before_a_failed_record_and_the_first_failure_is_reported() -> None:
    stopped: list[bool] = []
    track = Track(0, lambda: stopped.append(True))
    completions = []
    for offset in range(5):
        completions.append(track.send(offset))
        track.reach(offset + 1)
    failure = OSError("no")
    completions[3](DONE._replace(error=OSError("later")))
    completions[2](DONE._replace(error=failure))
    for number in (0, 1, 4):
        completions[number](DONE)
    assert track.failure == (2, failure)
    assert track.position == 0
    assert stopped == [True, True]
