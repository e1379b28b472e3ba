"""`ottla verify` on the directories of brokers, Kafka's too: it finds nothing in sound directories."""

import itertools
import shutil
from pathlib import Path

import pytest

from compat_tests.support.brokers import Broker, Ottla, ZooKeeperKafka, running
from compat_tests.support.clients import CODECS, PRODUCERS, Sent, create_topic
from ottla.log.verify.verify import verify

pytestmark = [pytest.mark.slow, pytest.mark.filterwarnings("ignore:unclosed:ResourceWarning")]
RECORDS = [Sent(b"k%d" % (i % 40), b"some value " * (i % 50), (("h", b"%d" % i),)) for i in range(2000)]
# librdkafka sends all of them in one batch, which must fit into a segment.
SEGMENT_BYTES = {"kafka-python": "50000", "confluent-kafka": "1048576"}
COMPACTED = ("log.cleaner.min.cleanable.ratio=0.01", "log.cleaner.backoff.ms=100", "log.roll.ms=1000")


def _filled(kind: type[Broker], kept: Path, *, kill: bool) -> int:
    """Write a directory with a broker that is stopped or killed; return the number of its logs."""
    with running(kind, COMPACTED) as broker:
        for client, codec in itertools.product(SEGMENT_BYTES, CODECS):
            topic = f"{client}-{codec}"
            config = {
                "segment.bytes": SEGMENT_BYTES[client],
                "cleanup.policy": "compact",
                "index.interval.bytes": "512",
            }
            create_topic(broker.bootstrap, topic, config=config)
            PRODUCERS[client](broker.bootstrap, topic, RECORDS, codec)
        if kill:
            broker.kill()
        else:
            broker.stop()
        shutil.copytree(broker.data / "log", kept)
    return 2 * len(CODECS)


@pytest.mark.parametrize("kill", [False, True], ids=["stopped", "killed"])
@pytest.mark.parametrize("kind", [Ottla, ZooKeeperKafka], ids=["ottla", "kafka"])
def test_verify_finds_nothing_wrong_in_the_directory_of_a_broker(
    kind: type[Broker], kill: bool, tmp_path: Path
) -> None:
    logs = _filled(kind, tmp_path / "data", kill=kill)
    lines: list[str] = []
    summary = verify([tmp_path / "data"], lines.append)
    assert lines == []
    assert summary.logs >= logs
    assert summary.batches > logs
    victim = max((tmp_path / "data").glob("*/*.log"), key=lambda path: path.stat().st_size)
    data = bytearray(victim.read_bytes())
    data[len(data) // 2] ^= 1
    victim.write_bytes(data)
    assert not verify([tmp_path / "data"], lines.append).is_sound
    assert str(victim) in lines[0]
