"""The page from results. PURE: the same for the same results."""

from collections.abc import Iterable, Mapping, Sequence

from compat_tests.compatibility.catalogue import Section
from compat_tests.compatibility.running import Result
from compat_tests.compatibility.trials import Outcome
from compat_tests.compatibility.verdicts import ABSENT, AGREES, DIFFERS, UNSUPPORTED, Cell, cell

SIGNS = {AGREES: "✅", DIFFERS: "❌", UNSUPPORTED: "⬜", ABSENT: "`-`"}
OTTLA = "Ottla"
HEAD = """\
# Compatibility

What stock clients do with Ottla {ottla}, compared with {kafkas}.
`make compat` runs every scenario of `compat_tests/compatibility` with every client against each of these brokers and
writes this page. A scenario expects the same result of all brokers.

- ✅ It works with Ottla, and with both releases of Apache Kafka or the one that has the feature.
- ❌ It works with Apache Kafka, but not with Ottla.
- ⬜ Ottla does not support it; [unsupported.md](unsupported.md) has the words quoted below the table.
- `-` The client does not support it, or it fails with Apache Kafka, too; the list below the table has the reason.

"""


def cells(
    sections: Sequence[Section], results: Iterable[Result], titles: Mapping[str, str]
) -> dict[tuple[str, str], Cell]:
    """Return the cell of each feature and client."""
    outcomes: dict[tuple[str, str], dict[str, Outcome]] = {}
    for each in results:
        outcomes.setdefault((each.feature, each.client), {})[each.broker] = Outcome(each.kind, each.why)
    found = {}
    for section in sections:
        for feature in section.features:
            for client in section.clients:
                of_all = outcomes[feature.name, str(client)]
                kafkas = {title: of_all[name] for name, title in titles.items() if name != OTTLA}
                found[feature.name, str(client)] = cell(of_all[OTTLA], kafkas, feature.unsupported)
    return found


def written(sections: Sequence[Section], found: Mapping[tuple[str, str], Cell], titles: Mapping[str, str]) -> str:
    """Return the page; `titles` are the brokers' names with their versions."""
    kafkas = " and ".join(title for name, title in titles.items() if name != OTTLA)
    head = HEAD.format(kafkas=kafkas, ottla=titles[OTTLA])
    return head + _summary(found) + "".join(_section(each, found) for each in sections)


def _summary(found: Mapping[tuple[str, str], Cell]) -> str:
    kinds = [each.kind for each in found.values()]
    return "Cells of each kind: " + ", ".join(f"{sign} {kinds.count(kind)}" for kind, sign in SIGNS.items()) + ".\n"


def _section(section: Section, found: Mapping[tuple[str, str], Cell]) -> str:
    columns = [str(client) for client in section.clients]
    lines = ["", f"## {section.title}", "", f"| | {' | '.join(columns)} |", "|---" * (len(columns) + 1) + "|"]
    for feature in section.features:
        signs = (SIGNS[found[feature.name, column].kind] for column in columns)
        lines.append(f"| {feature.name} | {' | '.join(signs)} |")
    notes = [*_quotes(section, found), *_reasons(section, found)]
    return "\n".join([*lines, "", *notes] if notes else lines) + "\n"


def _quotes(section: Section, found: Mapping[tuple[str, str], Cell]) -> list[str]:
    features: dict[str, list[str]] = {}
    for feature in section.features:
        if any(found[feature.name, str(client)].kind == UNSUPPORTED for client in section.clients):
            features.setdefault(feature.unsupported, []).append(feature.name)
    return [f'- {SIGNS[UNSUPPORTED]} {_listed(section, names)}: "{quote}".' for quote, names in features.items()]


def _reasons(section: Section, found: Mapping[tuple[str, str], Cell]) -> list[str]:
    features: dict[tuple[str, str, str], list[str]] = {}
    for client in map(str, section.clients):
        for feature in section.features:
            kind, why = found[feature.name, client]
            if why and kind != UNSUPPORTED:
                features.setdefault((client, SIGNS[kind], why), []).append(feature.name)
    return [f"- {sign} {client}, {_listed(section, names)}: {why}." for (client, sign, why), names in features.items()]


def _listed(section: Section, names: Sequence[str]) -> str:
    return "everything" if len(names) == len(section.features) else "; ".join(names)
