"""What the README shows works as it stands."""

import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from ottla import Broker

README = Path(__file__).resolve().parents[2] / "README.md"


def python_blocks() -> list[str]:
    return re.findall(r"^```python\n(.*?)^```", README.read_text(), re.DOTALL | re.MULTILINE)


@pytest.mark.slow
def test_the_example_for_kafka_python_reads_what_it_wrote(kafka_broker: Broker) -> None:
    example = python_blocks()[0].replace("localhost:9092", kafka_broker.bootstrap)
    done = subprocess.run([sys.executable, "-P", "-c", example], capture_output=True, text=True, timeout=120)
    lines = done.stdout.splitlines()
    assert done.returncode == 0, done.stderr
    assert lines == ["0 b'Milena' b'Hello Milena'", "1 b'Max' b'Hello Max'", "2 b'Felice' b'Hello Felice'"]


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


def test_every_file_that_the_readme_links_to_exists() -> None:
    links = re.findall(r"\]\((?!https?:)([^)#]+)", README.read_text())
    assert links
    assert [link for link in links if not (README.parent / link).exists()] == []
