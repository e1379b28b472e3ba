"""The keys of one part of a job file, each asked for by whoever understands it; what nobody asked for is unknown.

Owns how texts become numbers and truths, and the one line that names file, key and reason. Must not know which keys
there are. Counterparts in Kafka: ConfigDef, AbstractConfig, ConfigException.
"""

import difflib
import re
from collections.abc import Mapping, Sequence
from typing import Final

_TRUTHS: Final = {"true": True, "false": False}
_NEAR: Final = 0.5
# A reference such as ${file:/secrets:password}, which Kafka's config providers replace by a value. Taken for the value
# itself it would be a wrong password, or one that anybody knows.
_PROVIDERS: Final = "config.providers"
_REFERENCE: Final = re.compile(r"\$\{[^}:]+:[^}]*\}")


class JobError(Exception):
    """What is wrong with a job, in one line that names its file and the key; and both of it apart."""

    def __init__(self, line: str, key: str = "", reason: str = "") -> None:
        super().__init__(line)
        self.key = key
        self.reason = reason or line


class Settings:
    """Keys and values; strings as in Connect, or whatever TOML has. Each is to be asked for, once or more.

    `file` is what errors call the file, `prefix` what stands before the keys there ("transforms.mask.").
    """

    def __init__(self, values: Mapping[str, object], file: str, prefix: str = "") -> None:
        self.file = file
        self.prefix = prefix
        self.values = values
        self._known: set[str] = set()

    def __contains__(self, key: str) -> bool:
        return self.values.get(key) is not None

    def keys(self) -> list[str]:
        """All keys, known or not."""
        return list(self.values)

    def text(self, key: str, default: str | None = None, *, may_refer: bool = False) -> str:
        """A text; a key without a default has to be there. `may_refer`: it may hold a reference, `${file:...}`."""
        value = self._value(key, default)
        if not may_refer and isinstance(value, str) and (reference := _REFERENCE.search(value)) is not None:
            raise self.wrong(key, f"has {reference[0]}, which is not looked up here: write the value itself")
        if isinstance(value, bool):
            return str(value).lower()
        if not isinstance(value, str | int | float):
            raise self.wrong(key, f"is to be a text, not {value!r}")
        return str(value)

    def optional(self, key: str) -> str | None:
        """A text, or None where there is none."""
        self._known.add(key)
        return self.text(key) if key in self else None

    def choice(self, key: str, choices: Sequence[str], default: str | None = None) -> str:
        """One of some texts, whatever their case."""
        value = self.text(key, default)
        for choice in choices:
            if choice.lower() == value.lower():
                return choice
        raise self.wrong(key, f"is to be one of {', '.join(choices)}, not {value!r}")

    def integer(self, key: str, default: int | None = None, *, least: int | None = None) -> int:
        """A whole number."""
        text = self.text(key, None if default is None else str(default))
        try:
            value = int(text)
        except ValueError:
            raise self.wrong(key, f"is to be a whole number, not {text!r}") from None
        if least is not None and value < least:
            raise self.wrong(key, f"is to be at least {least}, not {value}")
        return value

    def truth(self, key: str, *, default: bool | None = None) -> bool:
        """True or false."""
        text = self.text(key, None if default is None else str(default))
        if text.lower() not in _TRUTHS:
            raise self.wrong(key, f"is to be true or false, not {text!r}")
        return _TRUTHS[text.lower()]

    def texts(self, key: str, default: Sequence[str] | None = None) -> list[str]:
        """A list; in Connect's files, texts between commas."""
        value = self._value(key, default)
        parts = value.split(",") if isinstance(value, str) else value
        if (
            isinstance(parts, str)
            or not isinstance(parts, Sequence)
            or not all(isinstance(p, str | int) for p in parts)
        ):
            raise self.wrong(key, f"is to be a list of texts, not {value!r}")
        return [str(part).strip() for part in parts if str(part).strip()]

    def part(self, key: str) -> "Settings":
        """The keys below one: a table of TOML, or those that begin with `key.`; empty where there is nothing."""
        self._known.add(key)
        below = f"{key}."
        found = {name.removeprefix(below): value for name, value in self.values.items() if name.startswith(below)}
        self._known |= {below + name for name in found}
        table = self.values.get(key)
        if isinstance(table, Mapping):
            found |= table
        elif table is not None and not found:
            raise self.wrong(key, f"is to be a table, not {table!r}")
        return Settings(found, self.file, f"{self.prefix}{below}")

    def tables(self, key: str) -> list["Settings"]:
        """A list of tables, each as a part; empty where there is none."""
        value = self.values.get(key, [])
        self._known.add(key)
        if not isinstance(value, list) or not all(isinstance(each, Mapping) for each in value):
            raise self.wrong(key, f"is to be a list of tables, not {value!r}")
        return [Settings(each, self.file, f"{self.prefix}{key}[{slot}].") for slot, each in enumerate(value)]

    def all_texts(self) -> dict[str, str]:
        """Whatever there is, as texts: for keys that are handed on to somebody else, who knows them."""
        # Kafka's own clients look references up when they are told of config providers.
        may_refer = _PROVIDERS in self.values
        return {key: self.text(key, may_refer=may_refer) for key in self.values}

    def wrong(self, key: str, reason: str) -> JobError:
        """The error that says what is wrong with a key."""
        return JobError(f"{self.file}: {self.prefix}{key} {reason}", f"{self.prefix}{key}", reason)

    def finish(self) -> None:
        """Refuse what nobody asked for."""
        for key in self.values:
            if key not in self._known:
                near = difflib.get_close_matches(key, self._known, 1, _NEAR)
                raise self.wrong(key, "is unknown" + (f"; did you mean {self.prefix}{near[0]}?" if near else ""))

    def _value(self, key: str, default: object) -> object:
        self._known.add(key)
        value = self.values.get(key)
        if value is None:
            value = default
        if value is None:
            raise self.wrong(key, "is missing")
        return value
