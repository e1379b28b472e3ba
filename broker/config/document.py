"""Writes docs/configuration.md from the declared keys: `python -m ottla.broker.config.document`.

Owns the page's layout. Must not know what a key means. Counterpart in Kafka: ConfigDef.toHtml.
"""

import sys
from typing import Any

from ottla.broker.config.broker_config import BROKER_CONFIG
from ottla.broker.config.ignored_keys import REFUSED, REFUSED_FAMILIES, without_effect
from ottla.broker.config.throttle import THROTTLE_CONFIG
from ottla.log.config import TOPIC_CONFIG
from ottla.wire.config_def import ConfigDef, ConfigKey, render

HEAD = """\
# Configuration

Written by `make docs` from the declarations in the code; do not edit.

Keys and values are Kafka's. `ottla serve` reads them from a properties file, then from `KAFKA_*` environment variables
(`KAFKA_LOG_DIRS` is `log.dirs`; `__` stands for `_`, `___` for `-`), then from `--override key=value`, then from its
options `--data`, and `--listen` and `--port` for a broker with one listener. The last value counts. Without a file two
defaults differ from Kafka's: `listeners` is `PLAINTEXT://localhost:9092`, and `log.dir` is `$XDG_DATA_HOME/ottla`.
"""
TABLE = ["", "| key | type | default | values | meaning |", "|---|---|---|---|---|"]
BROKER_HEAD = """\
AlterConfigs and IncrementalAlterConfigs change some keys while the broker runs: for one broker, or for one or all. A
value for one broker counts before a value for all, this before the file, and the file before the default.
"""
BROKER_TABLE = ["", "| key | type | default | values | may change for | meaning |", "|---|---|---|---|---|---|"]
ONLY_WHILE_IT_RUNS = "No file can set these keys, only AlterConfigs and IncrementalAlterConfigs."
_MAY_CHANGE_FOR = {"read-only": "", "per-broker": "one", "cluster-wide": "one or all"}


def document() -> str:
    """Return the page."""
    lines = [HEAD, "## Broker", "", BROKER_HEAD.strip(), *BROKER_TABLE, *_rows(BROKER_CONFIG, of_broker=True)]
    lines += ["", ONLY_WHILE_IT_RUNS, *BROKER_TABLE, *_rows(THROTTLE_CONFIG, of_broker=True)]
    lines += ["", "## Topics", "", "A topic without a value of its own has the broker's (`log.*` and others)."]
    lines += [*TABLE, *_rows(TOPIC_CONFIG)]
    lines += [
        "",
        "## Refused",
        "",
        "Ottla does not start with one of these keys, because it would be unsafe to ignore them:",
        "",
    ]
    lines += [f"- `{name}`{_harmless(values)}: {reason}." for name, (reason, values) in sorted(REFUSED.items())]
    lines += [f"- `{family}*`, for one listener too: as above." for family in REFUSED_FAMILIES]
    lines += ["", "## Without effect", "", "Kafka knows these keys; Ottla accepts them and does not use them:", ""]
    lines += [", ".join(f"`{name}`" for name in sorted(without_effect())) + "."]
    return "\n".join(lines) + "\n"


def _rows(keys: ConfigDef, *, of_broker: bool = False) -> list[str]:
    return [
        f"| `{name}` | {key.type.name.lower()} | {_default(key.default)} | {_values(key)} | "
        f"{f'{_MAY_CHANGE_FOR[key.dynamic]} | ' if of_broker else ''}{key.doc} |"
        for name, key in sorted(keys.items())
    ]


def _default(value: object) -> str:
    return f"`{render(value)}`" if render(value) else ""


def _values(key: ConfigKey[Any]) -> str:
    return key.validator.describe() if key.validator else ""


def _harmless(values: tuple[str, ...]) -> str:
    return f" (other than {' or '.join(f'`{value}`' for value in values)})" if values else ""


if __name__ == "__main__":
    sys.stdout.write(document())
