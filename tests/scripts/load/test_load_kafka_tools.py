"""Parts of the imitated tools for load that no comparison with Kafka's tools reaches."""

import io
import subprocess
import sys
import time
from collections.abc import Iterator

import pytest

from ottla.client.errors import ConnectionFailedError, OperationTimedOutError
from ottla.scripts.kafka import TOOLS
from ottla.scripts.kafka.absent import ABSENT, refuse
from ottla.scripts.kafka.face import Face, JavaError, Release
from ottla.scripts.kafka.java.date_formats import DateFormat
from ottla.scripts.kafka.java.numbers import fixed, quotient
from ottla.scripts.kafka.perf.metrics import print_metrics
from ottla.scripts.kafka.perf.producer_stats import Stats
from ottla.scripts.kafka.records.client_errors import ProducerErrors, consumer_error
from ottla.wire.errors import ErrorCode, KafkaError

# The output of java.text.SimpleDateFormat for two times.
AUTUMN_MS, NEW_YEAR_MS = 1_700_000_000_123, 1_735_689_599_999
FORMATTED = [
    ("UTC", "yyyy.MM.dd G 'at' HH:mm:ss z", "2023.11.14 AD at 22:13:20 UTC", "2024.12.31 AD at 23:59:59 UTC"),
    ("UTC", "h 'o''clock' a", "10 o'clock PM", "11 o'clock PM"),
    ("UTC", "D", "318", "366"),
    ("UTC", "YYYY w", "2023 46", "2025 1"),
    ("UTC", "W F u", "3 2 2", "5 5 2"),
    ("UTC", "yy MMMM EEEE", "23 November Tuesday", "24 December Tuesday"),
    ("UTC", "kk K SSSS", "22 10 0123", "23 11 0999"),
    ("UTC", "X XXX Z", "Z Z +0000", "Z Z +0000"),
    ("America/New_York", "yyyy-MM-dd HH:mm:ss:SSS", "2023-11-14 17:13:20:123", "2024-12-31 18:59:59:999"),
    ("America/New_York", "X XX XXX Z z", "-05 -0500 -05:00 -0500 EST", "-05 -0500 -05:00 -0500 EST"),
]


@pytest.fixture
def zone(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    monkeypatch.setenv("TZ", request.param)
    time.tzset()
    yield
    monkeypatch.undo()
    time.tzset()


@pytest.mark.parametrize(("zone", "pattern", "autumn", "new_year"), FORMATTED, indirect=["zone"])
def test_a_time_is_formatted_like_in_java(zone: None, pattern: str, autumn: str, new_year: str) -> None:
    assert [DateFormat(pattern).format(each) for each in (AUTUMN_MS, NEW_YEAR_MS)] == [autumn, new_year]


@pytest.mark.parametrize(
    ("pattern", "message"),
    [
        ("b", "Illegal pattern character 'b'"),
        ("'", "Unterminated quote"),
        ("XXXX", "invalid ISO 8601 format: length=4"),
    ],
)
def test_an_invalid_format_in_java_is_refused(pattern: str, message: str) -> None:
    with pytest.raises(JavaError) as refused:
        DateFormat(pattern)
    assert refused.value.message == message


@pytest.mark.parametrize(
    ("value", "digits", "text"),
    [(0.125, 2, "0.13"), (2.675, 2, "2.68"), (-0.5, 0, "-1"), (1e21, 1, "1000000000000000000000.0"), (3, 4, "3.0000")],
)
def test_a_number_is_rounded_like_in_java(value: float, digits: int, text: str) -> None:
    assert fixed(value, digits) == text


def test_a_division_by_zero_is_not_an_error_in_java() -> None:
    assert [fixed(quotient(each, 0), 2) for each in (0, 5, -5)] == ["NaN", "Infinity", "-Infinity"]
    assert quotient(1, 4) == 0.25


# Errors


def test_an_invalid_topic_has_its_long_error_only_once() -> None:
    errors = ProducerErrors("a/b")
    invalid = KafkaError(ErrorCode.INVALID_TOPIC_EXCEPTION, "a/b")
    name = "org.apache.kafka.common.errors.InvalidTopicException"
    assert [str(errors.next(invalid)) for _ in range(3)] == [
        f"{name}: Invalid topics: [a/b]",
        f"{name}: a/b",
        f"{name}: a/b",
    ]


def test_errors_of_a_client_have_the_names_of_kafkas() -> None:
    errors = ProducerErrors("t")
    late = errors.next(OperationTimedOutError("Topic t not present in metadata after 1 ms."))
    denied = errors.next(KafkaError(ErrorCode.TOPIC_AUTHORIZATION_FAILED, "t"))
    assert late.java_class == "org.apache.kafka.common.errors.TimeoutException"
    assert denied.message == "Not authorized to access topics: [t]"
    lost = consumer_error(ConnectionFailedError("gone"))
    assert str(lost) == "org.apache.kafka.common.KafkaException: gone"
    mine = JavaError("java.lang.RuntimeException", "mine")
    assert consumer_error(mine) is mine


# Statistics and metrics


def test_percentiles_are_those_of_all_records() -> None:
    lines: list[str] = []
    stats = Stats(1000, 5000, lines.append)
    for latency in range(1000):
        stats.record(latency, 10, 0)
    stats.print_total()
    assert lines[0].startswith("1000 records sent, ")
    assert lines[0].endswith(
        "499.50 ms avg latency, 999.00 ms max latency, 500 ms 50th, 950 ms 95th, 990 ms 99th, 999 ms 99.9th."
    )


def test_a_line_is_printed_after_each_window_and_at_the_begin_of_the_steady_state() -> None:
    lines: list[str] = []
    stats = Stats(10, 0, lines.append, is_steady_state=True)
    stats.record(3, 10, 1 << 60)
    stats.record(5, 10, 1 << 60)
    assert lines[0] == "In steady state."
    assert [line.split(",")[0] for line in lines[1:]] == ["1 records sent", "1 records sent"]
    stats.prints_windows = False
    stats.record(5, 10, 1 << 60)
    assert len(lines) == 3


@pytest.mark.parametrize(
    ("records", "name"), [(0, "ArithmeticException"), (-1, "ArrayIndexOutOf"), (-3, "NegativeArraySize")]
)
def test_fewer_than_one_record_is_an_exception_of_java(records: int, name: str) -> None:
    with pytest.raises(JavaError) as error:
        Stats(records, 5000, print)
    assert error.value.java_class.removeprefix("java.lang.").startswith(name)


def test_metrics_are_a_table_in_the_order_of_their_names() -> None:
    out = io.StringIO()
    print_metrics(Face(out=out), {"group:second:{}": 1.0, "group:first:{client-id=c}": "text"})
    assert out.getvalue().splitlines() == [
        "",
        "Metric Name                 Value",
        "group:first:{client-id=c} : text",
        "group:second:{}           : 1.000",
    ]


# Tools that are not imitated


@pytest.mark.parametrize("tool", ABSENT)
def test_a_tool_that_is_not_imitated_prints_an_error_and_fails(tool: str) -> None:
    err = io.StringIO()
    assert refuse(tool, Face(Release.V3_9, err=err)) == 1
    assert err.getvalue() == f"{tool}: not imitated: {ABSENT[tool]}\n"
    assert tool not in TOOLS


def test_the_program_of_the_shims_refuses_an_unknown_tool() -> None:
    command = [sys.executable, "-P", "-m", "ottla.scripts.kafka", "--as", "3.9", "kafka-jmx", "--frob"]
    done = subprocess.run(command, capture_output=True, text=True, timeout=120)
    assert (done.returncode, done.stdout) == (1, "")
    assert done.stderr.startswith("kafka-jmx: not imitated: ")
