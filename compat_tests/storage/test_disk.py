"""Kafka's dump tool finds no error in Ottla's files."""

import itertools
import re
from pathlib import Path

import pytest

from compat_tests.support.brokers import Ottla, run_tool, running
from compat_tests.support.clients import CODECS, PRODUCERS, Sent, create_topic

pytestmark = pytest.mark.slow
RECORDS = [Sent(b"k%d" % i, b"some value " * (i % 50), (("h", b"%d" % i),)) for i in range(2000)]
# librdkafka sends all of them in one batch, which must fit into a segment.
SEGMENT_BYTES = {"kafka-python": "100000", "confluent-kafka": "1048576"}


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a log directory of a stopped broker, filled by clients."""
    with running(Ottla) as broker:
        for producer, codec in itertools.product(SEGMENT_BYTES, CODECS):
            topic = f"{producer}-{codec}"
            config = {"segment.bytes": SEGMENT_BYTES[producer], "index.interval.bytes": "512"}
            create_topic(broker.bootstrap, topic, config=config)
            PRODUCERS[producer](broker.bootstrap, topic, RECORDS, codec)
        broker.stop()
        kept = tmp_path_factory.mktemp("disk") / "log"
        (broker.data / "log").rename(kept)
    return kept


def dump(folder: Path, suffix: str, *flags: str) -> str:
    """Return the output of DumpLogSegments for all files of a kind."""
    files = sorted(str(f) for f in folder.glob(f"*/*.{suffix}"))
    assert len(files) >= 10
    return run_tool("org.apache.kafka.tools.DumpLogSegments", *flags, "--files", ",".join(files), timeout_s=120)


def test_every_record_is_read_from_the_segments(folder: Path) -> None:
    printed = dump(folder, "log", "--deep-iteration", "--print-data-log")
    assert len(re.findall(r"^\| offset: ", printed, re.MULTILINE)) == len(RECORDS) * 2 * len(CODECS)
    assert "isvalid: false" not in printed
    assert set(re.findall(r"compresscodec: (\w+)", printed)) == set(CODECS)
    assert "Found non-consecutive offsets" not in printed


@pytest.mark.parametrize("suffix", ["index", "timeindex"])
@pytest.mark.parametrize("flag", ["--index-sanity-check", "--verify-index-only"])
def test_the_indexes_are_sane(folder: Path, suffix: str, flag: str) -> None:
    printed = dump(folder, suffix, flag)
    assert "Mismatches in" not in printed
    assert "Found out of order" not in printed
    if flag == "--index-sanity-check":
        assert "passed sanity check" in printed


def test_producer_snapshots_are_read(folder: Path) -> None:
    printed = dump(folder, "snapshot")
    assert "producerId: " in printed
    assert "CORRUPT" not in printed.upper()
