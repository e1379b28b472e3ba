"""A cell of the page from the outcomes of its trials. PURE."""

from collections.abc import Mapping
from typing import NamedTuple

from compat_tests.compatibility.trials import FAILED, LACKS, PASSED, Outcome

AGREES, DIFFERS, UNSUPPORTED, ABSENT = "agrees", "differs", "unsupported", "absent"


class Cell(NamedTuple):
    """The sign of a cell, and the reason if Ottla differs, or if one release of Kafka fails."""

    kind: str
    why: str = ""


def cell(ottla: Outcome, kafkas: Mapping[str, Outcome], unsupported: str = "") -> Cell:
    """Return the cell of a feature and a client; `unsupported` is a quote from docs/unsupported.md, or empty."""
    for each in (ottla, *kafkas.values()):
        if each.kind == LACKS:
            return Cell(ABSENT, each.why)
    failing = {name: each.why for name, each in kafkas.items() if each.kind == FAILED}
    text = "; ".join(f"fails with {name}: {why}" for name, why in failing.items())
    if len(failing) == len(kafkas):
        return Cell(ABSENT, text)
    if ottla.kind == PASSED:
        return Cell(DIFFERS, f"it works, but unsupported.md says: {unsupported}") if unsupported else Cell(AGREES, text)
    return Cell(UNSUPPORTED, unsupported) if unsupported else Cell(DIFFERS, ottla.why)
