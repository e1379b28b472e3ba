"""Schemas as Spark's SQL writes them: `id BIGINT NOT NULL, tags ARRAY<STRING>`, or one type alone.

Owns the grammar, so that a job file can be checked where no Spark runs. Must not know JSON. Counterpart in Spark:
DataTypeAstBuilder.
"""

import re
from dataclasses import replace
from typing import Final

from ottla.pipeline.formats.schema import Schema, atom, struct

_TOKEN: Final = re.compile(r"\s*(?:(`(?:[^`]|``)+`)|('(?:[^'\\]|\\.)*'|\"(?:[^\"\\]|\\.)*\")|(\w+)|([<>(),:]))")


def parse_ddl(text: str) -> Schema:
    """Read a type, or the columns of a struct; ValueError tells where it ends to be one."""
    reader = _Reader(text)
    schema = reader.type() if reader.is_one_type() else struct(reader.columns(""))
    reader.end()
    return schema


class _Reader:
    """The words of a text, read from left to right."""

    def __init__(self, text: str) -> None:
        self._words: list[str] = []
        position, text = 0, text.rstrip()
        while position < len(text):
            match = _TOKEN.match(text, position)
            if match is None:
                raise ValueError(f"is no schema at {text[position:].strip()[:20]!r}")
            self._words.append(match[0].strip())
            position = match.end()
        self._next = 0

    def is_one_type(self) -> bool:
        """Whether this is one type, not the columns of a struct."""
        return len(self._words) == 1 or self._words[1:2] in (["<"], ["("])

    def type(self) -> Schema:
        """A type with all that it holds."""
        word = self._take().lower()
        if word == "array" and self._peek() == "<":
            (items,) = self._inner(1)
            return Schema("array", values=items)
        if word == "map" and self._peek() == "<":
            keys, values = self._inner(2)
            return Schema("map", keys=replace(keys, optional=False), values=values)
        if word == "struct" and self._peek() == "<":
            self._expect("<")
            columns = self.columns(">")
            self._expect(">")
            return struct(columns)
        if self._peek() == "(":
            while not word.endswith(")"):
                word += self._take()
        return atom(word)

    def columns(self, closing: str) -> list[tuple[str, Schema]]:
        """Names and types between commas, up to what closes them."""
        columns: list[tuple[str, Schema]] = []
        while self._peek() != closing:
            if columns:
                self._expect(",")
            name = self._take()
            if not re.fullmatch(r"`.*`|\w+", name):
                raise ValueError(f"is no schema at {name!r}")
            if self._peek() == ":":
                self._take()
            bare = name[1:-1].replace("``", "`") if name.startswith("`") else name
            columns.append((bare, self._described(self.type())))
        return columns

    def end(self) -> None:
        """Refuse what is left."""
        if self._next < len(self._words):
            raise ValueError(f"is no schema at {self._peek()!r}")

    def _described(self, schema: Schema) -> Schema:
        if self._peek().lower() == "not":
            self._take()
            self._expect("null")
            schema = replace(schema, optional=False)
        if self._peek().lower() == "comment":
            self._take()
            schema = replace(schema, doc=self._take()[1:-1])
        return schema

    def _inner(self, count: int) -> list[Schema]:
        self._expect("<")
        types = [self.type()]
        for _ in range(count - 1):
            self._expect(",")
            types.append(self.type())
        self._expect(">")
        return types

    def _peek(self) -> str:
        return self._words[self._next] if self._next < len(self._words) else ""

    def _take(self) -> str:
        if self._next == len(self._words):
            raise ValueError("ends too early")
        self._next += 1
        return self._words[self._next - 1]

    def _expect(self, word: str) -> None:
        if self._peek().lower() != word:
            raise ValueError(f"is no schema at {self._peek()!r}: {word} is missing")
        self._next += 1
