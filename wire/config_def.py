"""Declaration, parsing and validation of configuration keys.

Owns the mechanism: each package declares its own keys. Must not know a key, a file or the environment. It parses values
as strictly as Kafka, and refuses them in Kafka's words. Counterpart: Kafka's ConfigDef.
"""

import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from enum import Enum
from typing import Any, Generic, Protocol, Self, TypeVar, overload

T_co = TypeVar("T_co", covariant=True)
INTEGER = re.compile(r"[+-]?[0-9]+")
DOUBLE = re.compile(r"([+-]?(?:NaN|Infinity|(?:[0-9]+\.?[0-9]*|\.[0-9]+)(?:[eE][+-]?[0-9]+)?))[fFdD]?")


class ConfigError(Exception):
    """A refused configuration; its text is one line that names the key."""


def invalid_value(name: str, value: object, reason: str) -> ConfigError:
    """Return Kafka's error for an invalid value."""
    return ConfigError(f"Invalid value {value} for configuration {name}: {reason}")


class ConfigType(Enum):
    """Kafka's types, by their numbers in DescribeConfigs."""

    BOOLEAN = 1
    STRING = 2
    INT = 3
    SHORT = 4
    LONG = 5
    DOUBLE = 6
    LIST = 7
    CLASS = 8
    PASSWORD = 9


class Importance(Enum):
    """The importance of a key for the operator of a broker."""

    HIGH = "high"
    MEDIUM = "medium"
    LOW = "low"


class Password:
    """A secret, whose repr is hidden."""

    __slots__ = ("value",)

    def __init__(self, value: str) -> None:
        self.value = value

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Password) and other.value == self.value

    def __hash__(self) -> int:
        return hash(self.value)

    def __repr__(self) -> str:
        return "[hidden]"


class Validator(Protocol):
    """A constraint on a value beyond its type."""

    def describe(self) -> str:
        """Return the allowed values in Kafka's notation."""

    def fault(self, value: Any) -> str | None:
        """Return the error of a value, or None."""


@dataclass(frozen=True, slots=True)
class Between:
    """A number within inclusive bounds; None is no bound. `also` is one more allowed value, for "unset"."""

    lowest: float | None = None
    highest: float | None = None
    also: float | None = None

    def describe(self) -> str:
        """Return the bounds as Kafka's documentation prints them."""
        bounds = [str(bound) for bound in (self.lowest, "...", self.highest) if bound is not None]
        return f"[{','.join(bounds)}]" + (f" or {self.also}" if self.also is not None else "")

    def fault(self, value: Any) -> str | None:
        """Return the violated bound, or None."""
        if value == self.also:
            return None
        if self.lowest is not None and not value >= self.lowest:
            return f"Value must be at least {self.lowest}"
        if self.highest is not None and not value <= self.highest:
            return f"Value must be no more than {self.highest}"
        return None


def at_least(lowest: int) -> Between:
    """Return a lower bound."""
    return Between(lowest)


class OneOf:
    """A string, or each item of a list, from a fixed set."""

    __slots__ = ("allowed",)

    def __init__(self, *allowed: str) -> None:
        self.allowed = allowed

    def describe(self) -> str:
        """Return the set as Kafka's documentation prints it."""
        return f"[{', '.join(self.allowed)}]"

    def fault(self, value: Any) -> str | None:
        """Return the error of a string, or of one item of a list, or None."""
        return None if value in self.allowed else f"String must be one of: {', '.join(self.allowed)}"


class Check:
    """A rule of a single key: `fault(value)` returns the error or None."""

    __slots__ = ("fault", "text")

    def __init__(self, text: str, fault: Callable[[Any], str | None]) -> None:
        self.text = text
        self.fault = fault

    def describe(self) -> str:
        """Return the declared text of the rule."""
        return self.text


@dataclass(slots=True, eq=False)
class ConfigKey(Generic[T_co]):
    """One key. As an attribute of a class with `values` it returns its value, typed as its default.

    LIST values are tuples of strings, CLASS values are names. `dynamic` is Kafka's update mode: "read-only" until a
    restart, "per-broker" or "cluster-wide". DescribeConfigs returns an internal key only if it is set.
    """

    name: str
    type: ConfigType
    default: T_co
    validator: Validator | None = None
    doc: str = ""
    importance: Importance = Importance.MEDIUM
    dynamic: str = "read-only"
    is_internal: bool = False

    def parse(self, text: str) -> T_co:
        """Return the value of a text. ConfigError: it is invalid."""
        value = parse_type(self.name, text, self.type)
        if self.validator is not None:
            each_item = isinstance(self.validator, OneOf) and self.type is ConfigType.LIST
            for checked in value if each_item else (value,):
                fault = self.validator.fault(checked)
                if fault:
                    shown = f"[{', '.join(checked)}]" if isinstance(checked, tuple) else render(checked)
                    raise invalid_value(self.name, shown, fault)
        return value  # type: ignore[no-any-return]

    @overload
    def __get__(self, instance: None, owner: object) -> Self: ...
    @overload
    def __get__(self, instance: "HoldsValues", owner: object) -> T_co: ...
    def __get__(self, instance: "HoldsValues | None", owner: object) -> Self | T_co:
        """Return the key's value in a configuration, or on the class the key itself."""
        return self if instance is None else instance.values[self.name]


class HoldsValues(Protocol):
    """A configuration: the parsed value of every key by its name."""

    @property
    def values(self) -> Mapping[str, Any]:
        """All values."""


class ConfigDef(Mapping[str, ConfigKey[Any]]):
    """Keys by name."""

    def __init__(self, keys: Iterable[ConfigKey[Any]]) -> None:
        self._keys: dict[str, ConfigKey[Any]] = {}
        for key in keys:
            if key.name in self._keys:
                raise ValueError(f"{key.name} is declared twice")
            self._keys[key.name] = key

    def __getitem__(self, name: str) -> ConfigKey[Any]:
        return self._keys[name]

    def __iter__(self) -> Iterator[str]:
        return iter(self._keys)

    def __len__(self) -> int:
        return len(self._keys)

    def parse(self, name: str, text: str) -> Any:
        """Return the value of a text. KeyError: the key is not declared."""
        return self._keys[name].parse(text)

    def parse_all(self, texts: Mapping[str, str]) -> dict[str, Any]:
        """Return the value of each declared key, its default without a text; other keys are left out."""
        return {name: key.parse(texts[name]) if name in texts else key.default for name, key in self._keys.items()}


def nearest(name: str, known: Iterable[str]) -> str | None:
    """Return the known key that is most similar to a misspelt one, or None."""
    import difflib  # here, because it takes 10 ms and only a misspelt key needs it

    matches = difflib.get_close_matches(name, known, n=1, cutoff=0.75)
    return matches[0] if matches else None


def parse_type(name: str, text: str, kind: ConfigType) -> Any:
    """Return the value of a text, as Kafka parses its type; surrounding blanks are ignored."""
    trimmed = text.strip()
    match kind:
        case ConfigType.BOOLEAN:
            if trimmed.lower() not in ("true", "false"):
                raise invalid_value(name, text, "Expected value to be either true or false")
            return trimmed.lower() == "true"
        case ConfigType.INT | ConfigType.SHORT | ConfigType.LONG:
            return _integer(name, text, kind)
        case ConfigType.DOUBLE:
            if not (match := DOUBLE.fullmatch(trimmed)):
                raise invalid_value(name, text, "Not a number of type DOUBLE")
            return float(match[1])
        case ConfigType.LIST:
            return tuple(re.split(r"\s*,\s*", trimmed)) if trimmed else ()
        case ConfigType.PASSWORD:
            return Password(trimmed)
        case ConfigType.STRING | ConfigType.CLASS:
            return trimmed


BITS = {ConfigType.SHORT: 16, ConfigType.INT: 32, ConfigType.LONG: 64}


def _integer(name: str, text: str, kind: ConfigType) -> int:
    trimmed = text.strip()
    # The length is checked first, because Python converts no text of thousands of digits.
    if INTEGER.fullmatch(trimmed) and len(trimmed) < 64:
        value = int(trimmed)
        limit = 1 << (BITS[kind] - 1)
        if -limit <= value < limit:
            return value
    raise invalid_value(name, text, f"Not a number of type {kind.name}")


def render(value: object) -> str:
    """Return a value as Kafka writes it, which parses to the value again; an empty text for None."""
    match value:
        case None:
            return ""
        case bool():
            return "true" if value else "false"
        case tuple() | list():
            return ",".join(str(item) for item in value)
        case float():
            return _render_double(value)
        case _:
            return str(value)


def _render_double(value: float) -> str:
    """Return a number as Java writes it: plain from 0.001 to 10,000,000, else in scientific notation."""
    if value != value or value in (float("inf"), float("-inf")):
        return "NaN" if value != value else "Infinity" if value > 0 else "-Infinity"
    if value == 0 or 1e-3 <= abs(value) < 1e7:
        return repr(value)
    texts = (f"{value:.{precision}e}" for precision in range(17))
    mantissa, _, exponent = next(text for text in texts if float(text) == value).partition("e")
    return f"{mantissa if '.' in mantissa else mantissa + '.0'}E{int(exponent)}"
