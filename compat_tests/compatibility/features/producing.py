"""Rows about writing records, which must be read as they were written."""

from functools import partial
from typing import Any

from compat_tests.compatibility.features.declaring import Feature
from compat_tests.compatibility.trials import Trial, expect

NOON = 1_700_000_000_000
MESSAGE_TOO_LARGE = 10
LARGE = 2 * 1024 * 1024
# More than the size of a batch with one record without its value.
AROUND = 512
HEADERS = [["trace", "1"], ["other", "ä"], ["trace", "2"]]


def values(trial: Trial, count: int, **more: Any) -> list[Any]:
    """Return the values that the client reads from the beginning."""
    return [value for _, _, _, value, _ in trial.ask("fetch", topic=trial.topic, count=count, **more)]


def acks(wanted: str, trial: Trial) -> None:
    trial.create_topic()
    found = trial.ask("produce", topic=trial.topic, records=[{"value": "a"}, {"value": "b"}], acks=wanted)
    if found is not None:
        expect(found, [0, 1])
    expect(values(trial, 2), ["a", "b"])


def codec(name: str, trial: Trial) -> None:
    trial.create_topic()
    texts = [f"{number} " + "compressible " * 100 for number in range(50)]
    trial.fill(*texts, codec=name)
    expect(values(trial, 50), texts)


def headers(trial: Trial) -> None:
    trial.create_topic()
    trial.ask("produce", topic=trial.topic, records=[{"value": "v", "headers": HEADERS}, {"value": "w"}])
    found = [each[4] for each in trial.ask("fetch", topic=trial.topic, count=2)]
    expect(found, [HEADERS, []])


def null_headers(trial: Trial) -> None:
    trial.create_topic()
    wanted = [["null", None], ["empty", ""]]
    trial.ask("produce", topic=trial.topic, records=[{"value": "v", "headers": wanted}])
    ((*_, found),) = trial.ask("fetch", topic=trial.topic, count=1)
    expect(found, wanted)


def null_and_empty(trial: Trial) -> None:
    trial.create_topic()
    pairs = [("k", "v"), (None, "v"), ("k", None), ("", "v"), ("k", "")]
    trial.ask("produce", topic=trial.topic, records=[{"key": key, "value": value} for key, value in pairs])
    found = [[key, value] for _, _, key, value, _ in trial.ask("fetch", topic=trial.topic, count=len(pairs))]
    expect(found, [list(each) for each in pairs])


def create_time(trial: Trial) -> None:
    trial.create_topic()
    times = [NOON, NOON - 60_000, NOON + 1]
    trial.ask("produce", topic=trial.topic, records=[{"value": "v", "timestamp": each} for each in times])
    expect([each[1] for each in trial.ask("fetch", topic=trial.topic, count=3)], times)


def log_append_time(trial: Trial) -> None:
    trial.create_topic(message_timestamp_type="LogAppendTime")
    trial.write_at({NOON: "v"})
    ((_, found, *_),) = trial.ask("fetch", topic=trial.topic, count=1)
    expect("the broker's time" if found > NOON + 1000 else "the producer's time", "the broker's time")


def large(trial: Trial) -> None:
    trial.create_topic(max_message_bytes=str(LARGE))
    text = "x" * (LARGE - AROUND)
    trial.fill(text)
    expect([len(each) for each in values(trial, 1)], [len(text)])


def too_large(trial: Trial) -> None:
    trial.create_topic(max_message_bytes=str(LARGE))
    refused = trial.refusal("produce", topic=trial.topic, records=[{"value": "x" * (LARGE + 1)}])
    if refused.code is not None:
        expect(refused.code, MESSAGE_TOO_LARGE)
    expect(trial.latest(), 0)


def idempotent(trial: Trial) -> None:
    trial.create_topic()
    texts = [str(number) for number in range(200)]
    trial.fill(*texts, idempotent=True)
    expect(values(trial, 200), texts)


def auto_create(trial: Trial) -> None:
    trial.fill("first")
    expect(values(trial, 1), ["first"])


def no_auto_create(trial: Trial) -> None:
    trial.refusal("produce", topic=trial.topic, records=[{"value": "v"}])
    expect(trial.partitions(), 0)


ROWS = [
    *[Feature(f"acks={each}", partial(acks, each)) for each in ("0", "1", "all")],
    *[Feature(f"codec {each}", partial(codec, each)) for each in ("none", "gzip", "snappy", "lz4", "zstd")],
    Feature("headers: their order, repeated names", headers),
    Feature("headers: null and empty values", null_headers),
    Feature("null and empty keys and values", null_and_empty),
    Feature("timestamps of the producer (CreateTime)", create_time),
    Feature("timestamps of the broker (LogAppendTime)", log_append_time),
    Feature("the largest record that max.message.bytes allows", large),
    Feature("a larger record is refused", too_large),
    Feature("the idempotent producer", idempotent),
    Feature("writing creates a topic", auto_create),
    Feature("auto.create.topics.enable=false", no_auto_create, setting="strict"),
]
