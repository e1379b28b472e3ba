"""Job files: TOML or Connect's .properties, which come to the same flat keys.

Owns how tables become dotted keys, and what is said of a file that cannot be read. Must not know which keys there are.
Counterpart in Kafka: the connector configurations of Connect.
"""

import json
import tomllib
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from types import MappingProxyType
from typing import Any, Final

from ottla.pipeline.settings import JobError, Settings

_STEPS, _INPUTS = "steps", "inputs"
# Lists of tables that stay such: their order counts. Connect's flat form writes them as JSON.
_LISTS: Final = (_STEPS, _INPUTS)
# Lists of named tables, which Connect writes as a list of names and dotted keys.
_NAMED: Final = ("transforms", "predicates")


def read_settings(path: Path, overrides: Mapping[str, str] = MappingProxyType({})) -> Settings:
    """All keys of a job file, and those that are said beside it, which count over it."""
    try:
        text = path.read_text("utf-8")
    except (OSError, UnicodeDecodeError) as error:
        reason = error.strerror if isinstance(error, OSError) else "is not text"
        raise JobError(f"{path}: {reason}") from None
    if path.suffix == ".toml":
        try:
            return _settings({**_once(_flat(tomllib.loads(text), str(path)), str(path)), **overrides}, str(path))
        except (tomllib.TOMLDecodeError, RecursionError) as error:
            raise JobError(f"{path}: {error}") from None
    if path.suffix == ".properties":
        import javaproperties

        try:
            return of_texts({**javaproperties.loads(text), **overrides}, str(path))
        except ValueError as error:
            raise JobError(f"{path}: {error}") from None
    raise JobError(f"{path}: a job is a .toml or a .properties file")


def of_texts(config: Mapping[str, str], file: str) -> Settings:
    """The keys of a job in Connect's flat form."""
    values: dict[str, object] = dict(config)
    for key in _LISTS:
        if key in config:
            try:
                values[key] = json.loads(config[key])
            except (ValueError, RecursionError) as error:
                fault = f"is to be a list of tables in JSON: {error}"
                raise JobError(f"{file}: {key} {fault}", key, fault) from None
    return _settings(values, file)


def texts(settings: Settings) -> dict[str, str]:
    """Connect's flat form of what a file says."""
    # A date of TOML's becomes a text, as it does in all other keys.
    return {
        key: json.dumps(value, default=str) if key in _LISTS else _text(value) for key, value in settings.values.items()
    }


def _text(value: object) -> str:
    if isinstance(value, list):
        return ",".join(map(_text, value))
    return str(value).lower() if isinstance(value, bool) else str(value)


def _settings(values: dict[str, object], file: str) -> Settings:
    """The keys, of which `sql` is the short form of a step."""
    query = values.pop("sql", None)
    if query is not None and "steps" in values:
        raise JobError(f"{file}: sql is a step, and cannot stand beside steps", "sql", "cannot stand beside steps")
    return Settings(values if query is None else {**values, "steps": [{"kind": "sql", "query": query}]}, file)


def _flat(table: Mapping[str, Any], file: str, prefix: str = "") -> Iterator[tuple[str, object]]:
    for key, value in table.items():
        name = f"{prefix}{key}"
        if name in _NAMED and isinstance(value, list) and value and isinstance(value[0], dict):
            yield from _named(name, value, file)
        elif name == _INPUTS and isinstance(value, list) and all(isinstance(each, dict) for each in value):
            # The keys of an input are those of a source.
            yield name, [_once(_flat(each, file), file) for each in value]
        elif isinstance(value, dict):
            yield from _flat(value, file, f"{name}.")
        else:
            yield name, value


def _once(pairs: Iterable[tuple[str, object]], file: str) -> dict[str, object]:
    """All keys; TOML itself does not see that `"a.b"` and `b` in `[a]` are the same one."""
    found: dict[str, object] = {}
    for key, value in pairs:
        if key in found:
            raise JobError(f"{file}: {key} is there twice", key, "is there twice")
        found[key] = value
    return found


def _named(key: str, tables: list[Any], file: str) -> Iterator[tuple[str, object]]:
    names = [table.get("name") if isinstance(table, dict) else None for table in tables]
    if not all(isinstance(name, str) for name in names) or len(set(names)) < len(names):
        raise JobError(f"{file}: each of {key} is to have a name of its own")
    yield key, names
    for table in tables:
        yield from _flat({k: v for k, v in table.items() if k != "name"}, file, f"{key}.{table['name']}.")
