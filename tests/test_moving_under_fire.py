"""Replicas move between two directories while producers write and the broker is killed: nothing is lost or doubled."""

import random
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from compat_tests.both import Side
from compat_tests.brokers import Ottla, run_tool
from compat_tests.writing import Writer, read_all

pytestmark = [pytest.mark.once, pytest.mark.slow, pytest.mark.timeout(1800)]

TOPICS = ("one", "two")
SETTINGS = ("num.partitions=1", "log.segment.bytes=1100000", "log.flush.interval.messages=1")


@pytest.mark.trials(few=3, soak=16)
def test_kills_in_the_midst_of_moves_lose_no_acknowledged_record_and_double_none(
    tmp_path: Path, trials: int, seed: int, tell: Callable[[str], None]
) -> None:
    chance = random.Random(seed)
    directories = [str(tmp_path / name) for name in ("a", "b")]
    broker = Ottla(tmp_path, [f"log.dirs={','.join(directories)}", *SETTINGS])
    broker.start()
    writers = [Writer(broker.bootstrap, topic) for topic in TOPICS]
    moved = 0
    try:
        for writer in writers:
            writer.start()
        for _ in range(trials):
            for writer in writers:
                writer.wait_for_acknowledgement()
            side = Side(broker)
            before = places(side)
            for topic in TOPICS:
                (there,) = set(directories) - before[topic]
                wanted = [{"path": there, "topics": [{"name": topic, "partitions": [0]}]}]
                answer = side.ask("AlterReplicaLogDirs", 2, {"dirs": wanted})
                assert answer["results"][0]["partitions"][0]["error_code"] == 0
            time.sleep(chance.uniform(0, 0.3))
            moved += sum(each != before[topic] for topic, each in places(side).items())
            side.close()
            broker.kill()
            broker.start()
        for writer in writers:
            writer.wait_for_acknowledgement()
            writer.stopping.set()
        for writer in writers:
            writer.join(120)
            assert not writer.failures
            there_is = read_all(broker.bootstrap, writer.topic)
            assert {there_is[offset]: offset for offset in writer.acknowledged.values()} == writer.acknowledged
            assert len(there_is) == len(set(there_is.values())) == len(writer.acknowledged) == writer.sent
    finally:
        for writer in writers:
            writer.stopping.set()
        broker.stop()
    for topic in TOPICS:
        (log,) = [Path(each) / f"{topic}-0" for each in directories if (Path(each) / f"{topic}-0").exists()]
        files = ",".join(sorted(map(str, log.glob("*.log"))))
        printed = run_tool("org.apache.kafka.tools.DumpLogSegments", "--deep-iteration", "--files", files)
        assert "isvalid: true" in printed
        assert "isvalid: false" not in printed
    tell(f"{trials} kills amid {2 * trials} moves, of which {moved} had ended, {sum(w.sent for w in writers)} records")


def places(side: Side) -> dict[str, set[str]]:
    """In which directory each topic's log is, of those that are no future logs."""
    found: dict[str, set[str]] = {topic: set() for topic in TOPICS}
    for result in side.ask("DescribeLogDirs", 4, {"topics": None})["results"]:
        for topic in result["topics"]:
            if topic["name"] in found and not all(each["is_future_key"] for each in topic["partitions"]):
                found[topic["name"]].add(result["log_dir"])
    return found
