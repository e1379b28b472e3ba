"""A log directory with slow writes, under real brokers that are killed: acknowledged records are there once."""

import random
import time
from collections import defaultdict
from pathlib import Path

import pytest

from compat_tests.support.brokers import Ottla, running
from compat_tests.support.clients import create_topic
from compat_tests.support.slow_writes import QUICK, SLOW, SlowWrites, directory_of
from compat_tests.support.writing import Writer, read_all

pytestmark = [pytest.mark.slow, pytest.mark.timeout(1800)]
WRITE_MS = 40


@pytest.mark.trials(few=2, soak=20)
@pytest.mark.once
def test_slow_and_quick_directories_lose_and_double_nothing_when_brokers_are_killed(
    tmp_path: Path, trials: int, seed: int
) -> None:
    chance = random.Random(seed)
    writes = SlowWrites(tmp_path)
    with running(writes.broker(Ottla, "topic-")) as broker:
        by_directory: dict[str, str] = defaultdict(str)
        for number in range(2):
            create_topic(broker.bootstrap, f"topic-{number}")
            by_directory[directory_of(broker, f"topic-{number}")] = f"topic-{number}"
        assert set(by_directory) == {SLOW, QUICK}
        writers = [Writer(broker.bootstrap, by_directory[where]) for where in (SLOW, QUICK, SLOW)]
        for each in writers:
            each.start()
        for number in range(trials):
            writes.take(WRITE_MS)
            for each in writers:
                each.wait_for_acknowledgement()
            # Some kills come while the directory changes back to quick writes.
            writes.take(chance.choice((0, WRITE_MS)))
            time.sleep(chance.uniform(0.0, 0.3))
            if number % 2:
                broker.kill()
            else:
                broker.stop()
            broker.start()
        writes.take(0)
        for each in writers:
            each.wait_for_acknowledgement()
            each.stopping.set()
        for each in writers:
            each.join(120)
            assert not each.failures
            assert each.unsent == 0, broker.output()[-4000:]
        assert "Traceback" not in broker.output()
        assert "A bug" not in broker.output()
        found = {topic: read_all(broker.bootstrap, topic) for topic in by_directory.values()}
    for each in writers:
        assert len(each.acknowledged) == each.sent
        for value, offset in each.acknowledged.items():
            assert found[each.topic][offset] == value
    slow, quick, also_slow = writers
    # No record of either producer is there twice.
    assert len(found[slow.topic]) == slow.sent + also_slow.sent
    assert len(found[quick.topic]) == quick.sent
