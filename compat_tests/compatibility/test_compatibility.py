"""The suite behind docs/compatibility.md: some trials on two brokers, and the cells of outcomes.

`make compat` runs all trials, and writes the page.
"""

import re
import sys
from collections.abc import Sequence
from pathlib import Path

import pytest

from compat_tests.compatibility.catalogue import Section, sections
from compat_tests.compatibility.drivers import Driver, Program, Refused
from compat_tests.compatibility.features.declaring import Feature
from compat_tests.compatibility.page import cells, written
from compat_tests.compatibility.running import Result, run_setting
from compat_tests.compatibility.settings import PLAIN
from compat_tests.compatibility.trials import FAILED, LACKS, PASSED, Outcome
from compat_tests.compatibility.verdicts import ABSENT, AGREES, DIFFERS, UNSUPPORTED, Cell, cell
from compat_tests.support.brokers import ApacheKafka, Broker, Ottla

DOCS = Path(__file__).parents[2] / "docs"
QUICK_CLIENTS = ("kafka-python", "confluent-kafka", "aiokafka", "kafka-clients 4.4.0")
QUICK_ROWS = (
    "acks=all",
    "codec zstd",
    "headers: their order, repeated names",
    "null and empty keys and values",
    "a larger record is refused",
    "the idempotent producer",
    "read from a time",
    "offsets: earliest, latest",
    "two members share, one leaves: roundrobin",
    "reading continues at committed offsets",
    "create a topic; refused if it exists",
    "describe configs",
    "delete records",
)
LIES = "it has no wings"
OK = Outcome(PASSED)
BROKEN = Outcome(FAILED, "it fell")
ANSWERING = (
    "for line in open(0): print('{\"result\": 1}' if 'now' in line else '', flush=True) if 'never' not in line else 0"
)

pytestmark = pytest.mark.slow


def quick() -> list[Section]:
    found = []
    for each in sections():
        rows = [feature for feature in each.features if feature.name in QUICK_ROWS]
        found.append(Section(each.title, rows, [one for one in each.clients if str(one).startswith(QUICK_CLIENTS)]))
    assert sum(len(each.features) for each in found) == len(QUICK_ROWS)
    return found


@pytest.mark.parametrize("kind", [Ottla, ApacheKafka], ids=["ottla", "kafka"])
def test_clients_find_what_a_scenario_expects_of_every_broker(kind: type[Broker]) -> None:
    results = run_setting(quick(), kind, PLAIN)
    assert len(results) == len(QUICK_ROWS) * len(QUICK_CLIENTS)
    assert [each for each in results if each.kind == FAILED] == []


@pytest.mark.parametrize(
    ("ottla", "kafkas", "unsupported", "wanted"),
    [
        (OK, (OK, OK), "", Cell(AGREES)),
        (OK, (OK, BROKEN), "", Cell(AGREES, "fails with B: it fell")),
        (BROKEN, (OK, OK), "", Cell(DIFFERS, "it fell")),
        (BROKEN, (BROKEN, OK), "", Cell(DIFFERS, "it fell")),
        (BROKEN, (BROKEN, OK), LIES, Cell(UNSUPPORTED, LIES)),
        (OK, (OK, OK), LIES, Cell(DIFFERS, f"it works, but unsupported.md says: {LIES}")),
        (OK, (BROKEN, BROKEN), "", Cell(ABSENT, "fails with A: it fell; fails with B: it fell")),
        (BROKEN, (BROKEN, BROKEN), LIES, Cell(ABSENT, "fails with A: it fell; fails with B: it fell")),
        (BROKEN, (Outcome(LACKS, "no API"), OK), LIES, Cell(ABSENT, "no API")),
    ],
)
def test_a_cell_is_what_ottla_does_beside_the_kafkas_that_can(
    ottla: Outcome, kafkas: Sequence[Outcome], unsupported: str, wanted: Cell
) -> None:
    assert cell(ottla, dict(zip("AB", kafkas, strict=True)), unsupported) == wanted


def test_the_page_has_a_sign_for_each_cell_and_a_reason_where_it_is_not_green() -> None:
    client = quick()[0].clients[0]
    rows = [Feature("runs", lambda _: None), Feature("flies", lambda _: None, unsupported=LIES)]
    made = [Section("Moving", rows, [client])]
    results = [
        Result("runs", str(client), broker, PASSED, "")
        if broker != "Ottla"
        else Result("runs", str(client), broker, *BROKEN)
        for broker in ("Ottla", "Kafka")
    ]
    results += [Result("flies", str(client), "Ottla", *BROKEN), Result("flies", str(client), "Kafka", PASSED, "")]
    titles = {"Ottla": "1", "Kafka": "Kafka 4"}
    page = written(made, cells(made, results, titles), titles)
    assert page == written(made, cells(made, reversed(results), titles), titles)
    assert "| runs | ❌ |" in page
    assert f"❌ {client}, runs: it fell." in page
    assert "| flies | ⬜ |" in page
    assert f'⬜ flies: "{LIES}".' in page


def test_what_is_called_unsupported_stands_in_the_list_of_what_is() -> None:
    listed = " ".join((DOCS / "unsupported.md").read_text().split())
    quotes = {feature.unsupported for each in sections() for feature in each.features}
    assert [each for each in quotes if each not in listed] == []


def test_the_page_in_the_tree_has_every_row_and_every_column() -> None:
    page = (DOCS / "compatibility.md").read_text()
    for section in sections():
        table = page.partition(f"\n## {section.title}\n")[2].partition("\n## ")[0]
        columns = re.escape(" | ".join(map(str, section.clients)))
        assert re.search(rf"^\| \| {columns} \|$", table, re.MULTILINE), section.title
        rows = re.findall(r"^\| (\w.*?) \|", table, re.MULTILINE)
        assert rows == [each.name for each in section.features]


def test_a_client_that_does_not_answer_is_refused_and_started_anew() -> None:
    with Driver(lambda: Program([sys.executable, "-c", ANSWERING], Path()), patience_s=0.5) as driver:
        with pytest.raises(Refused, match="did not answer"):
            driver.ask("never")
        assert driver.ask("now") == 1
        with pytest.raises(Refused, match="did not answer"):
            driver.ask("nonsense")
        assert driver.ask("now") == 1
