"""kafka-dump-log, on files of brokers of each kind, and on some damaged files.

Both sides get the same copies, which are of the first broker.
"""

import shutil
from collections.abc import Sequence
from pathlib import Path

import confluent_kafka

from compat_tests.support.brokers import ApacheKafka, Broker
from compat_tests.support.clients import PATIENCE_S, Sent, create_topic
from compat_tests.support.tools import Runs
from compat_tests.support.transactional import Transactions

_INTERNAL = ["offsets.topic.num.partitions=1", "transaction.state.log.num.partitions=1"]
_UNVERIFIED = "transaction.partition.verification.enable=false"
SETTINGS = {kind: [*_INTERNAL, _UNVERIFIED] for kind in ("Ottla", "Kafka", "Kafka 3.9")}
_DECODER = "org.apache.kafka.tools.api"
COMMANDS = {
    "dump-log: segments are printed": f"""
        dump-log --files LOGS/mixed-0/00000000000000000000.log
        dump-log --files LOGS/mixed-0/00000000000000000000.log --deep-iteration
        dump-log --files LOGS/mixed-0/00000000000000000000.log --print-data-log
        dump-log --files LOGS/mixed-0/00000000000000000000.log --print-data-log --skip-record-metadata
        dump-log --files LOGS/mixed-0/00000000000000000000.log --max-bytes 500
        dump-log --files LOGS/mixed-0/00000000000000000000.log --value-decoder-class {_DECODER}.StringDecoder
        dump-log --files LOGS/numbers-0/00000000000000000000.log --value-decoder-class {_DECODER}.LongDecoder
        dump-log --files LOGS/numbers-0/00000000000000000000.log --key-decoder-class {_DECODER}.IntegerDecoder
        dump-log --files LOGS/numbers-0/00000000000000000000.log --key-decoder-class kafka.serializer.IntegerDecoder
        dump-log --files LOGS/stamped-0/00000000000000000000.log --print-data-log
        dump-log --files LOGS/empty-0/00000000000000000000.log --print-data-log
        dump-log --files LOGS/rolled-0/ROLLED.log --print-data-log
        dump-log --files LOGS/empty-0/00000000000000000000.log,LOGS/stamped-0/00000000000000000000.log
    """,
    "dump-log: records of groups are decoded": """
        dump-log --files LOGS/__consumer_offsets-0/00000000000000000000.log --offsets-decoder
        dump-log --files LOGS/__consumer_offsets-0/00000000000000000000.log --offsets-decoder --skip-record-metadata
        dump-log --files LOGS/mixed-0/00000000000000000000.log --offsets-decoder
    """,
    "dump-log: transactions are decoded": """
        dump-log --files LOGS/__transaction_state-0/00000000000000000000.log --transaction-log-decoder
        dump-log --files LOGS/sold-0/00000000000000000000.log --print-data-log
        dump-log --files LOGS/sold-0/00000000000000000000.log --print-data-log --skip-record-metadata
        dump-log --files LOGS/sold-0/00000000000000000000.txnindex
        dump-log --files LOGS/rolled-0/00000000000000000000.txnindex
        dump-log --files LOGS/missing-0/00000000000000000000.txnindex
    """,
    "dump-log: indexes are printed and checked": """
        dump-log --files LOGS/rolled-0/00000000000000000000.index
        dump-log --files LOGS/rolled-0/00000000000000000000.timeindex
        dump-log --files LOGS/rolled-0/00000000000000000000.index --verify-index-only
        dump-log --files LOGS/rolled-0/00000000000000000000.timeindex --verify-index-only
        dump-log --files LOGS/rolled-0/00000000000000000000.index --index-sanity-check
        dump-log --files LOGS/rolled-0/00000000000000000000.timeindex --index-sanity-check
        dump-log --files LOGS/rolled-0/00000000000000000000.index --max-message-size 100
        dump-log --files LOGS/rolled-0/ROLLED.index
        dump-log --files LOGS/rolled-0/ROLLED.timeindex
        dump-log --files LOGS/rolled-0/ROLLED.snapshot
        dump-log --files LOGS/empty-0/00000000000000000000.index
        dump-log --files LOGS/empty-0/00000000000000000000.timeindex
    """,
    "dump-log: damage is found": """
        dump-log --files LOGS/short-0/00000000000000000000.log
        dump-log --files LOGS/zeros-0/00000000000000000000.log
        dump-log --files LOGS/flipped-0/00000000000000000000.log --print-data-log
        dump-log --files LOGS/gap-0/00000000000000000000.log --deep-iteration
        dump-log --files LOGS/wrong-0/00000000000000000000.index
        dump-log --files LOGS/wrong-0/00000000000000000000.index --index-sanity-check
        dump-log --files LOGS/wrong-0/00000000000000000000.timeindex
        dump-log --files LOGS/wrong-0/00000000000000000000.timeindex --verify-index-only
        dump-log --files LOGS/odd-0/00000000000000000000.timeindex --index-sanity-check
        dump-log --files LOGS/bad-0/00000000000000000001.snapshot
        dump-log --files LOGS/bad-0/00000000000000000002.snapshot
    """,
    "dump-log: wrong usage is refused": """
        dump-log
        dump-log --help
        dump-log --version
        dump-log --frob
        dump-log --print-data-log
        dump-log --files LOGS/mixed-0/missing.log
        dump-log --files LOGS/mixed-0/00000000000000000099.log
        dump-log --files LOGS/mixed-0/00000000000000000099.index
        dump-log --files LOGS/mixed-0/00000000000000000099.timeindex
        dump-log --files LOGS/mixed-0/00000000000000000099.snapshot
        dump-log --files LOGS/mixed-0/frob.txt
        dump-log --files LOGS/mixed-0/leader-epoch-checkpoint
        dump-log --files LOGS/mixed-0/named.checkpoint
        dump-log --files LOGS/mixed-0/00000000000000000000.log --max-bytes many
        dump-log --files LOGS/mixed-0/00000000000000000000.log --value-decoder-class com.frob.Decoder
    """,
}
_copies: list[Path] = []


def prepare(tools: Runs, broker: Broker) -> None:
    """Write records of all kinds, and copy the files."""
    if _copies:
        copies = _copies.pop()
    else:
        copies = _written(broker)
        _copies.append(copies)
    rolled = sorted(each.stem for each in (copies / "rolled-0").glob("*.log"))
    broker.names |= {"LOGS": str(copies), "ROLLED": rolled[1]}


def _written(broker: Broker) -> Path:
    bootstrap = broker.bootstrap
    for topic, config in (
        ("empty", {}),
        ("mixed", {}),
        ("numbers", {}),
        ("stamped", {"message.timestamp.type": "LogAppendTime"}),
        ("rolled", {"segment.bytes": "1048576", "index.interval.bytes": "4096"}),
    ):
        create_topic(bootstrap, topic, config=config)
    mixed = [
        Sent(b"k", b"v"),
        Sent(None, "naïve".encode()),
        Sent(b"gone", None),
        Sent(b"h", b"", (("a", b"1"), ("b", None))),
    ]
    for codec in ("none", "gzip", "snappy", "lz4", "zstd"):
        _produce(bootstrap, "mixed", mixed, codec)
    numbers = [Sent((7).to_bytes(4, "big"), (-8).to_bytes(8, "big", signed=True))]
    _produce(bootstrap, "numbers", numbers, "none")
    _produce(bootstrap, "stamped", mixed, "none")
    _produce(bootstrap, "rolled", [Sent(b"%d" % number, bytes(5000)) for number in range(4)] * 60, "none", batch=4)
    for protocol in ("classic", "consumer") if isinstance(broker, ApacheKafka) else ("classic",):
        _consume(bootstrap, protocol)
    Transactions(bootstrap).close()
    copies = broker.data / "copies"
    shutil.copytree(broker.data / "log", copies)
    _damage(copies)
    return copies


def _produce(bootstrap: str, topic: str, records: Sequence[Sent], codec: str, batch: int = 100) -> None:
    """Write records, `batch` of them in a batch."""
    settings = {"bootstrap.servers": bootstrap, "compression.type": codec, "enable.idempotence": True, "linger.ms": 50}
    producer = confluent_kafka.Producer({**settings, "log_level": 0})
    for number, each in enumerate(records, 1):
        producer.produce(topic, each.value, each.key, partition=0, headers=list(each.headers))
        if number % batch == 0:
            producer.flush(PATIENCE_S)
    assert producer.flush(PATIENCE_S) == 0


def _consume(bootstrap: str, protocol: str) -> None:
    """Read a topic in a group, commit, and leave."""
    settings = {"bootstrap.servers": bootstrap, "group.id": f"of-{protocol}", "auto.offset.reset": "earliest"}
    consumer = confluent_kafka.Consumer({**settings, "group.protocol": protocol, "enable.auto.commit": False})
    consumer.subscribe(["mixed", "numbers"])
    assert consumer.consume(5, PATIENCE_S)
    consumer.commit(asynchronous=False)
    consumer.close()


def _damage(copies: Path) -> None:
    """Make directories with a damaged segment, or damaged indexes."""
    whole = (copies / "mixed-0" / "00000000000000000000.log").read_bytes()
    first = 12 + int.from_bytes(whole[8:12], "big")
    segments = {
        "short": whole[:-10],
        "zeros": whole + bytes(100),
        # A byte in the value of the first record.
        "flipped": whole.replace(b"v", b"w", 1),
        "gap": whole[:first] + (1000).to_bytes(8, "big") + whole[first + 8 :],
    }
    for name, data in segments.items():
        folder = copies / f"{name}-0"
        folder.mkdir()
        (folder / "00000000000000000000.log").write_bytes(data)
    for name in ("wrong", "odd"):
        shutil.copytree(copies / "rolled-0", copies / f"{name}-0")
    index, times = (copies / "wrong-0" / f"00000000000000000000.{each}" for each in ("index", "timeindex"))
    positions = bytearray(index.read_bytes())
    for at in (8, 24):
        positions[at : at + 4] = (int.from_bytes(positions[at : at + 4], "big") + 1).to_bytes(4, "big")
    index.write_bytes(positions)
    entries = bytearray(times.read_bytes())
    entries[12:20] = (int.from_bytes(entries[12:20], "big") - 10_000).to_bytes(8, "big")
    entries[44:48] = (int.from_bytes(entries[44:48], "big") + 1).to_bytes(4, "big")
    times.write_bytes(entries)
    # Kafka's tool repairs the length of offset indexes.
    odd = copies / "odd-0" / "00000000000000000000.timeindex"
    odd.write_bytes(odd.read_bytes() + b"odd")
    _damage_snapshots(copies)


def _damage_snapshots(copies: Path) -> None:
    data = bytearray(max((copies / "rolled-0").glob("*.snapshot")).read_bytes())
    folder = copies / "bad-0"
    folder.mkdir()
    (folder / "00000000000000000002.snapshot").write_bytes(b"\0\2" + data[2:])
    data[-1] ^= 1
    (folder / "00000000000000000001.snapshot").write_bytes(data)
