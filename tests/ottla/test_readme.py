"""The examples of the README work as they stand."""

import os
import re
import shlex
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from compat_tests.support.jars import require
from ottla import Broker

README = Path(__file__).resolve().parents[2] / "README.md"


def python_blocks() -> list[str]:
    return re.findall(r"^```python\n(.*?)^```", README.read_text(), re.DOTALL | re.MULTILINE)


def run(*command: str | Path, **more: Any) -> "subprocess.CompletedProcess[str]":
    """Run a program until it ends with 0."""
    done = subprocess.run(command, capture_output=True, text=True, **more)
    assert done.returncode == 0, done.stdout + done.stderr
    return done


@pytest.mark.slow
def test_the_example_for_kafka_python_reads_its_own_records(kafka_broker: Broker) -> None:
    example = python_blocks()[0].replace("localhost:9092", kafka_broker.bootstrap)
    done = subprocess.run([sys.executable, "-P", "-c", example], capture_output=True, text=True, timeout=120)
    lines = done.stdout.splitlines()
    assert done.returncode == 0, done.stderr
    assert lines == ["0 b'Milena' b'Hello Milena'", "1 b'Max' b'Hello Max'", "2 b'Felice' b'Hello Felice'"]


@pytest.mark.slow
@pytest.mark.trials(few=0, soak=1)
def test_the_line_for_spark_shows_the_records_of_the_example(trials: int, tmp_path: Path) -> None:
    if not trials:
        pytest.skip("downloads half a gigabyte: for a soak")
    require("java")
    (spark,) = re.findall(r"^- Spark.*\n  .*", README.read_text(), re.MULTILINE)
    install, shell, line = re.findall(r"`([^`]+)`", spark)
    run(sys.executable, "-m", "venv", tmp_path / "environment")
    programs = tmp_path / "environment" / "bin"
    run(programs / "python", "-m", *shlex.split(install))
    # The shell fetches its packages into this folder, not into the user's.
    (tmp_path / "spark-defaults.conf").write_text(f"spark.jars.ivy {tmp_path / 'ivy'}\nspark.ui.enabled false\n")
    # The tests' own options for Spark and for its JVM are for the version that they use.
    of_tests = re.compile(r".*SPARK|PYTHON|.*JAVA\w*OPTIONS")
    environment = {name: text for name, text in os.environ.items() if not of_tests.match(name)}
    environment |= {
        "PATH": f"{programs}{os.pathsep}{os.environ['PATH']}",
        "SPARK_CONF_DIR": str(tmp_path),
        "SPARK_LOCAL_IP": "127.0.0.1",
        # Without it Python would run its input as a script, which begins without the shell's `spark`.
        "PYSPARK_DRIVER_PYTHON_OPTS": "-i",
    }
    with Broker() as broker:
        run(sys.executable, "-P", "-c", python_blocks()[0].replace("localhost:9092", broker.bootstrap))
        code = line.replace("localhost:9092", broker.bootstrap) + "\n"
        done = run(*shlex.split(shell), input=code, env=environment, cwd=tmp_path)
    rows = [[cell.strip() for cell in row.split("|")[1:-1]] for row in done.stdout.splitlines() if row.startswith("|")]
    assert rows, done.stderr
    keys = [f"[{name.hex(' ').upper()}]" for name in (b"Milena", b"Max", b"Felice")]
    assert rows[0] == ["key", "value", "topic", "partition", "offset", "timestamp", "timestampType"]
    assert [(row[0], row[2], row[4]) for row in rows[1:]] == [(key, "greetings", str(n)) for n, key in enumerate(keys)]


@pytest.mark.slow
def test_the_example_of_a_broker_in_a_test_runs() -> None:
    called: list[str] = []
    exec(python_blocks()[1], {"run_my_service": lambda bootstrap: called.append(bootstrap)})
    assert len(called) == 1


@pytest.mark.slow
def test_the_example_of_the_fixtures_runs(kafka_broker: Broker, kafka_topic: str) -> None:
    called: list[tuple[str, str]] = []
    names: dict[str, Any] = {"run_my_service": lambda bootstrap, topic: called.append((bootstrap, topic))}
    exec(next(each for each in python_blocks() if "kafka_topic" in each), names)
    names["test_my_service"](kafka_broker, kafka_topic)
    assert called == [(kafka_broker.bootstrap, kafka_topic)]


@pytest.mark.slow
def test_the_example_of_a_cluster_in_a_test_runs() -> None:
    called: list[str] = []
    exec(
        next(each for each in python_blocks() if "Cluster(3" in each),
        {"run_my_service": lambda bootstrap: called.append(bootstrap)},
    )
    assert [len(each.split(",")) for each in called] == [3]
