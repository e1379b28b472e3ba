"""Writes docs/transforms.md from the declared transforms and predicates: `python -m ottla.pipeline.transform_docs`.

Counterpart: org.apache.kafka.connect.tools.TransformationDoc.
"""

import sys
from collections.abc import Iterable, Iterator
from typing import Any

from ottla.pipeline import predicates, transforms
from ottla.pipeline.declared import Declared, is_required
from ottla.pipeline.predicates import PREDICATES
from ottla.pipeline.transforms import TRANSFORMS
from ottla.pipeline.transforms.transform import COMMON_CONFIG
from ottla.wire.config_def import ConfigKey, render

HEAD = f"""\
# Transforms

Written by `make docs` from the declarations in the code; do not edit.

A job's transforms are Connect's, by name and by key: what a properties file says to Connect means the same here.

```toml
transforms = ["mask"]
predicates = ["orders"]
"transforms.mask.type" = "MaskField$Value"
"transforms.mask.fields" = "card"
"transforms.mask.predicate" = "orders"
"predicates.orders.type" = "TopicNameMatches"
"predicates.orders.pattern" = "orders-.*"
```

Or a table for each, in whose order they apply: `[transforms.mask]`, then `type = "MaskField$Value"`. A type is a short
name or Connect's full one (`{transforms.PACKAGE}.`, `{predicates.PACKAGE}.`).

They work on columns, which have one type for all rows. So what does not suit that type (a field that is not there, a
type that cannot be cast) ends the job before its first row; what does not suit one row makes that row a bad record,
with the class and message that Connect has. Rows that are bad already pass untouched, but without a key or value that
would have to be of another type. Where a predicate leaves some rows as they are, the column has the fields of both,
null where a row lacks one; if one field would have two types, the job is refused.

Structs are Connect's records with a schema, maps from strings those without. Null in Spark is a record without key or
value: most transforms pass it on, MaskField, HeaderFrom and ValueToKey make it a bad record, as in Connect. Fields have
no defaults. Dates before 1582 are those of today's calendar, where Java changes to Caesar's.

What all transforms have:
"""
TABLE = ["", "| key | type | default | values | meaning |", "|---|---|---|---|---|"]


def document() -> str:
    """Return the whole page."""
    lines = [HEAD.rstrip(), *TABLE, *_rows(COMMON_CONFIG.values())]
    for name, cls in TRANSFORMS.items():
        if not name.endswith("$Value"):
            shown = f"{name}, {name.removesuffix('$Key')}$Value" if name.endswith("$Key") else name
            lines += _section(f"## {shown}", cls)
    lines += ["", "## Predicates"]
    for name, predicate in PREDICATES.items():
        lines += _section(f"### {name}", predicate)
    return "\n".join(lines) + "\n"


def _section(title: str, cls: type[Declared]) -> Iterator[str]:
    yield from ("", title)
    for paragraph in cls.documentation():
        yield from ("", paragraph)
    if cls.CONFIG:
        yield from (*TABLE, *_rows(cls.CONFIG.values()))


def _rows(keys: Iterable[ConfigKey[Any]]) -> Iterator[str]:
    for key in keys:
        default = "required" if is_required(key) else f"`{render(key.default)}`" if render(key.default) else ""
        values = key.validator.describe() if key.validator else ""
        yield f"| `{key.name}` | {key.type.name.lower()} | {default} | {values} | {key.doc} |"


if __name__ == "__main__":
    sys.stdout.write(document())
