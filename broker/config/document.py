"""Writes docs/configuration.md from the declared keys: `python -m ottla.broker.config.document`.

Counterpart: ConfigDef.toHtml.
"""

import sys
from collections.abc import Iterable
from typing import Any

from ottla.broker.config.broker_config import BROKER_CONFIG
from ottla.broker.config.ignored_keys import REFUSED, REFUSED_FAMILIES, without_effect
from ottla.broker.config.throttle import THROTTLE_CONFIG
from ottla.log.config import TOPIC_CONFIG
from ottla.wire.config_def import ConfigKey, render

HEAD = """\
# Configuration

Written by `make docs` from the declarations in the code; do not edit.

Keys and values are Kafka's. `ottla serve` reads them from a properties file, then from `KAFKA_*` environment variables
(`KAFKA_LOG_DIRS` is `log.dirs`; `__` stands for `_`, `___` for `-`), then from `--override key=value`, then from its
options `--data`, and `--listen` and `--port` for a broker with one listener; the last counts. Without a file two
defaults are not Kafka's: `listeners` is `PLAINTEXT://localhost:9092`, and `log.dir` is `$XDG_DATA_HOME/ottla`.
"""
TABLE = ["", "| key | type | default | values | meaning |", "|---|---|---|---|---|"]
BROKER_HEAD = """\
What may change while the broker runs, by AlterConfigs and IncrementalAlterConfigs, says for whom: one broker, or one
broker or all. A value for this broker counts before one for all, this before the file, and the file before the default.
"""
BROKER_TABLE = ["", "| key | type | default | values | may change for | meaning |", "|---|---|---|---|---|---|"]
ONLY_WHILE_IT_RUNS = "These no file can set, only AlterConfigs and IncrementalAlterConfigs."
_MAY_CHANGE_FOR = {"read-only": "", "per-broker": "one", "cluster-wide": "one or all"}


def document() -> str:
    """Return the whole page."""
    lines = [HEAD, "## Broker", "", BROKER_HEAD.strip(), *BROKER_TABLE, *_broker_rows(BROKER_CONFIG.values())]
    lines += ["", ONLY_WHILE_IT_RUNS, *BROKER_TABLE, *_broker_rows(THROTTLE_CONFIG.values())]
    lines += ["", "## Topics", "", "Without a value of its own a topic has the broker's (`log.*` and others)."]
    lines += [*TABLE, *_rows(TOPIC_CONFIG.values())]
    lines += [
        "",
        "## Refused",
        "",
        "Ottla does not start with these keys set, since to ignore them would be unsafe:",
        "",
    ]
    lines += [f"- `{name}`{_harmless(values)}: {reason}." for name, (reason, values) in sorted(REFUSED.items())]
    lines += [f"- `{family}*`, for one listener too: as above." for family in REFUSED_FAMILIES]
    lines += ["", "## Without effect", "", "Kafka knows these keys; Ottla accepts them and does not use them:", ""]
    lines += [", ".join(f"`{name}`" for name in sorted(without_effect())) + "."]
    return "\n".join(lines) + "\n"


def _rows(keys: Iterable[ConfigKey[Any]]) -> list[str]:
    return [
        f"| `{key.name}` | {key.type.name.lower()} | {_default(key.default)} | {_values(key)} | {key.doc} |"
        for key in sorted(keys, key=lambda key: key.name)
    ]


def _broker_rows(keys: Iterable[ConfigKey[Any]]) -> list[str]:
    return [
        f"| `{key.name}` | {key.type.name.lower()} | {_default(key.default)} | {_values(key)} | "
        f"{_MAY_CHANGE_FOR[key.dynamic]} | {key.doc} |"
        for key in sorted(keys, key=lambda key: key.name)
    ]


def _default(value: object) -> str:
    return f"`{render(value)}`" if render(value) else ""


def _values(key: ConfigKey[Any]) -> str:
    return key.validator.describe() if key.validator else ""


def _harmless(values: tuple[str, ...]) -> str:
    return f" (other than {' or '.join(f'`{value}`' for value in values)})" if values else ""


if __name__ == "__main__":
    sys.stdout.write(document())
