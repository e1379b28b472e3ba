"""JAAS files: the login modules of each section.

PURE. Owns the grammar. Must not know the modules, nor the source of a file.
Counterpart: javax.security.auth.login.Configuration, as the JDK reads it from a file.
"""

import re
from collections.abc import Iterator, Mapping
from typing import Final, NamedTuple

_TOKEN: Final = re.compile(
    r"""(?P<blank> \s+ | //[^\n]* | /\*.*?\*/ )
      | "(?P<quoted> (?: \\. | [^"\\\n] )* )"
      | (?P<mark> [{};=] )
      | (?P<word> [^\s"{};=/]+ )""",
    re.VERBOSE | re.DOTALL,
)
_FLAGS: Final = frozenset({"required", "requisite", "sufficient", "optional"})
_ESCAPES: Final = {"n": "\n", "r": "\r", "t": "\t", "b": "\b", "f": "\f"}
_PROPERTY: Final = re.compile(r"\$\{([^}]*)\}")


class JaasError(ValueError):
    """A file is not a JAAS file; the text names the line."""


class LoginModule(NamedTuple):
    """A module of a section: its Java class and its options."""

    class_name: str
    options: Mapping[str, str]


class _Token(NamedTuple):
    text: str
    line: int
    is_mark: bool


def parse_jaas(text: str, properties: Mapping[str, str]) -> dict[str, list[LoginModule]]:
    """Return the modules of each section. Values may name system properties, as `${name}`."""
    tokens = list(_tokens(text))
    reader = _Reader(tokens, properties)
    sections: dict[str, list[LoginModule]] = {}
    while not reader.is_at_end:
        name = reader.word("the name of a section")
        if name in sections:
            raise reader.error(f"a second section {name}")
        reader.mark("{")
        sections[name] = reader.modules()
        reader.mark(";")
    return sections


def parse_login_module(text: str) -> LoginModule:
    """Return the only module in a value of `sasl.jaas.config`."""
    reader = _Reader([*_tokens(text), _Token("}", text.count("\n") + 1, True)], {})
    modules = reader.modules()
    if len(modules) != 1 or not reader.is_at_end:
        raise JaasError(f"there are {len(modules)} login modules where there must be one")
    return modules[0]


def _tokens(text: str) -> Iterator[_Token]:
    at = 0
    while at < len(text):
        found = _TOKEN.match(text, at)
        line = text.count("\n", 0, at) + 1
        if found is None:
            raise JaasError(f"line {line}: {text[at]!r} is out of place")
        at = found.end()
        match found.lastgroup:
            case "quoted":
                yield _Token(re.sub(r"\\(.)", _unescaped, found["quoted"], flags=re.DOTALL), line, False)
            case "mark" | "word":
                yield _Token(found[0], line, found.lastgroup == "mark")


def _unescaped(escape: re.Match[str]) -> str:
    return _ESCAPES.get(escape[1], escape[1])


class _Reader:
    """A parser that takes one token after the other."""

    def __init__(self, tokens: list[_Token], properties: Mapping[str, str]) -> None:
        self._tokens = tokens
        self._properties = properties
        self._next = 0

    @property
    def is_at_end(self) -> bool:
        return self._next == len(self._tokens)

    def error(self, what: str) -> JaasError:
        line = self._tokens[max(0, self._next - 1)].line
        return JaasError(f"line {line}: {what}")

    def is_mark(self, mark: str) -> bool:
        return not self.is_at_end and self._tokens[self._next].is_mark and self._tokens[self._next].text == mark

    def mark(self, mark: str) -> None:
        if not self.is_mark(mark):
            raise self.error(f"{mark!r} is missing")
        self._next += 1

    def word(self, what: str) -> str:
        if self.is_at_end or self._tokens[self._next].is_mark:
            raise self.error(f"{what} is missing")
        self._next += 1
        return self._tokens[self._next - 1].text

    def modules(self) -> list[LoginModule]:
        modules = []
        while not self.is_mark("}"):
            class_name = self.word("'}'")
            if self.word("the flag of a module").lower() not in _FLAGS:
                raise self.error(f"the flag of a module is none of {', '.join(sorted(_FLAGS))}")
            options = {}
            while not self.is_mark(";"):
                name = self.word("';'")
                self.mark("=")
                options[name] = self._expanded(self.word("a value"))
            self.mark(";")
            modules.append(LoginModule(class_name, options))
        self.mark("}")
        return modules

    def _expanded(self, value: str) -> str:
        def value_of(found: re.Match[str]) -> str:
            if found[1] not in self._properties:
                raise self.error(f"there is no system property {found[1]}")
            return self._properties[found[1]]

        return _PROPERTY.sub(value_of, value)
