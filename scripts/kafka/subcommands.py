"""Command lines with sub-commands as Kafka's parser argparse4j reads them, with its error messages.

PURE. Owns the parsing and the layout of usage and help; the texts of help are ours. Counterpart: argparse4j 0.7.
"""

import re
from collections.abc import Sequence
from typing import Any, Final, NamedTuple, NoReturn

from ottla.scripts.kafka.face import Face, JavaError, ToolExit
from ottla.scripts.kafka.java.numbers import STRING, JavaType
from ottla.scripts.kafka.subcommand_lines import WIDTH, help_of, nearest, wrapped

_PACKAGE: Final = "net.sourceforge.argparse4j."
_MANY: Final = 0x7FFFFFFF
_NEGATIVE: Final = re.compile(r"-\d+")
_COUNTS: Final = {"?": (0, 1), "*": (0, _MANY), "+": (1, _MANY)}


class ParserError(JavaError):
    """An invalid command line."""

    def __init__(self, parser: "Parser", message: str, kind: str = "inf.ArgumentParserException") -> None:
        super().__init__(_PACKAGE + kind, message)
        self.parser = parser
        self.mistyped: str | None = None
        """A word that may be a mistyped name."""
        self.names: Sequence[str] = ()
        """The names to suggest for it."""


class HelpShown(ParserError):  # noqa: N818
    """The command line has the flag for help, or for the version."""

    def __init__(self, parser: "Parser", *, is_version: bool = False) -> None:
        super().__init__(parser, "Help Screen", "internal.HelpScreenException")
        self.is_version = is_version


# Arguments


class OneOf:
    """A group of options that exclude each other."""

    def __init__(self, *, is_required: bool = False) -> None:
        self.is_required = is_required


class Argument(NamedTuple):
    """An option, or a positional argument if its name begins without a hyphen.

    `action` is store, append, store_true, help or version. `many` is a number of values, or one of `?`, `*` and `+`.
    """

    names: tuple[str, ...]
    help: str
    action: str = "store"
    type: JavaType = STRING
    is_required: bool = False
    default: Any = None
    many: int | str | None = None
    choices: tuple[Any, ...] = ()
    metavar: str | None = None
    destination: str | None = None
    group: OneOf | None = None

    @property
    def is_option(self) -> bool:
        """Whether the argument has flags."""
        return self.names[0].startswith("-")

    @property
    def takes_values(self) -> bool:
        """Whether values follow it."""
        return self.action in ("store", "append")

    @property
    def key(self) -> str:
        """Return the key of its value."""
        if self.destination is not None:
            return self.destination
        longest = next((each for each in self.names if each.startswith("--")), self.names[0])
        return longest.lstrip("-").replace("-", "_")

    @property
    def counts(self) -> tuple[int, int]:
        """Return the least and the most number of values; (-1, -1) for an argument that is not a list."""
        if self.many is None:
            return -1, -1
        return _COUNTS[self.many] if isinstance(self.many, str) else (self.many, self.many)

    @property
    def shown(self) -> str:
        """Return its name in messages."""
        return "/".join(self.names)

    def values_shown(self) -> str:
        """Return the values in the form of a usage line."""
        if not self.takes_values:
            return ""
        name = self.metavar or (_choices(self) if self.choices else self.key.upper() if self.is_option else self.key)
        return {
            (0, 1): f"[{name}]",
            (0, _MANY): f"[{name} [{name} ...]]",
            (1, _MANY): f"{name} [{name} ...]",
        }.get(self.counts, " ".join([name] * max(1, self.counts[0])))

    def syntax(self) -> str:
        """Return the argument in the form of a usage line, without brackets."""
        return " ".join(filter(None, [self.names[0] if self.is_option else "", self.values_shown()]))

    def in_usage(self) -> str:
        """Return the argument in the form of a usage line."""
        return f"[{self.syntax()}]" if self.is_option and not self.is_required else self.syntax()


def argument(*names: str, help: str, **more: Any) -> Argument:
    """Return an argument."""
    return Argument(names, help, **more)


_HELP: Final = argument("-h", "--help", help="Print this help and end.", action="help")


def _choices(option: Argument) -> str:
    return "{" + ",".join(map(str, option.choices)) + "}"


# Parsing


class _State:
    """The progress of reading a command line."""

    def __init__(self, words: Sequence[str]) -> None:
        self.words = list(words)
        self.index = 0
        self.is_separated = False
        self.positionals: list[str] = []
        self.deferred: ParserError | None = None

    @property
    def word(self) -> str:
        return self.words[self.index]

    @property
    def has_more(self) -> bool:
        return self.index < len(self.words)

    def at_flag(self) -> bool:
        """Whether the next word is a flag."""
        if self.is_separated:
            return False
        return bool(self.word.strip("-") and self.word.startswith("-") and not _NEGATIVE.fullmatch(self.word)) or (
            self.word == "--"
        )

    def at_value(self) -> bool:
        """Whether there is a next word, and it is a value."""
        return self.has_more and not self.at_flag()


class Parser:
    """A tool, or a sub-command of one."""

    def __init__(
        self,
        name: str,
        about: str,
        arguments: Sequence[Argument] = (),
        commands: Sequence["Parser"] = (),
        *,
        commands_metavar: str | None = None,
        version: str = "",
    ) -> None:
        self.name = name
        self.about = about
        self.version = version
        self.options = [_HELP, *(each for each in arguments if each.is_option)]
        self.positionals = [each for each in arguments if not each.is_option]
        self.commands = {each.name: each for each in commands}
        self.upper: Parser | None = None
        self._flags = {name: each for each in self.options for name in each.names}
        self._commands_metavar = commands_metavar
        for command in commands:
            command.upper = self

    @property
    def prog(self) -> str:
        """Return the tool's name."""
        return self.name if self.upper is None else self.upper.prog

    def parse(self, words: Sequence[str]) -> dict[str, Any]:
        """Return the values of a command line; the sub-command's name is `command`. ParserError if it is invalid."""
        state = _State(words)
        values: dict[str, Any] = {}
        self._parse(state, values)
        if state.deferred is not None:
            raise state.deferred
        return values

    def parse_or_exit(self, words: Sequence[str], face: Face) -> dict[str, Any]:
        """Return the values of a command line. After an error or help, end the tool with 1."""
        try:
            return self.parse(words)
        except ParserError as error:
            report(face, error)
            raise ToolExit(1) from None

    def _parse(self, state: _State, values: dict[str, Any]) -> None:
        for each in (*self.positionals, *self.options):
            if each.action != "help":
                values[each.key] = False if each.action == "store_true" and each.default is None else each.default
        used: list[Argument] = []
        while state.has_more:
            if state.at_flag() and state.word != "--":
                self._take_option(state, values, used)
            elif state.word == "--" and not state.is_separated:
                state.is_separated = True
                state.index += 1
            elif len(state.positionals) < sum(max(1, each.counts[1]) for each in self.positionals):
                state.positionals.append(state.word)
                state.index += 1
            elif self.commands and not state.is_separated:
                self._end(state, values, used)
                self._take_command(state, values)
                return
            else:
                raise ParserError(self, f"unrecognized arguments: '{' '.join(state.words[state.index :])}'")
        if self.commands:
            raise ParserError(self, "too few arguments")
        self._end(state, values, used)

    def _take_option(self, state: _State, values: dict[str, Any], used: list[Argument]) -> None:
        word = state.word
        name, equals, text = word.partition("=")
        option = self._option(name)
        if option is not None:
            state.index += 1
            self._use(state, values, used, option, text if equals else None)
            return
        if word.startswith("--"):
            self._refuse(word)
        # One-letter options, of which the last may take a value.
        for at, letter in enumerate(word[1:], 1):
            option = self._flags.get(f"-{letter}")
            if option is None:
                self._refuse(word)
            if option.takes_values:
                state.index += 1
                self._use(state, values, used, option, word[at + 1 :] or None)
                return
            self._use(state, values, used, option, None)
        state.index += 1

    def _refuse(self, word: str) -> NoReturn:
        error = ParserError(self, f"unrecognized arguments: '{word}'", "internal.UnrecognizedArgumentException")
        error.mistyped = word.lstrip("-") if len(word.lstrip("-")) > 1 else None
        error.names = [name for each in self.options for name in each.names if len(name.lstrip("-")) > 1]
        raise error

    def _option(self, name: str) -> Argument | None:
        """Return the option of this name, or the only option that begins with it."""
        if name in self._flags:
            return self._flags[name]
        found = sorted(each for each in self._flags if each.startswith(name))
        if not found:
            return None
        is_cluster = not name.startswith("--") and self._is_cluster(name)
        if len(found) == 1 and not is_cluster:
            return self._flags[found[0]]
        matching = ", ".join(sorted([*found, name[:2]] if is_cluster else found))
        raise ParserError(self, f"ambiguous option: {name} could match {matching}")

    def _is_cluster(self, word: str) -> bool:
        for letter in word[1:]:
            option = self._flags.get(f"-{letter}")
            if option is None or option.takes_values:
                return option is not None
        return True

    def _use(
        self, state: _State, values: dict[str, Any], used: list[Argument], option: Argument, text: str | None
    ) -> None:
        if option.group is not None:
            other = next((each for each in used if each.group is option.group and each is not option), None)
            if other is not None:
                raise self._wrong(option, f"not allowed with argument {other.shown}")
        if not option.takes_values:
            if text is not None:
                raise self._wrong(option, f"ignore implicit argument '{text}'")
            self._act(option)
            values[option.key] = True
        else:
            found = self._values(state, option, text)
            values[option.key] = [*(values[option.key] or ()), found] if option.action == "append" else found
        used.append(option)

    def _act(self, option: Argument) -> None:
        if option.action == "help":
            raise HelpShown(self)
        if option.action == "version":
            raise HelpShown(self, is_version=True)

    def _values(self, state: _State, option: Argument, text: str | None) -> Any:
        least, most = option.counts
        if least == -1 or (least, most) == (0, 1):
            if text is None and state.at_value():
                text = state.word
                state.index += 1
            if text is None and least == -1:
                raise self._wrong(option, "expected one argument")
            return None if text is None else self._converted(option, text)
        found = [] if text is None else [self._converted(option, text)]
        while text is None and len(found) < most and state.at_value():
            found.append(self._converted(option, state.word))
            state.index += 1
        if len(found) < least:
            raise self._wrong(option, f"expected {least} argument(s)")
        return found

    def _converted(self, option: Argument, text: str) -> Any:
        try:
            value = option.type.convert(text)
        except ValueError as error:
            raise self._wrong(option, f"could not convert '{text}' to {option.type.name} ({error})") from None
        if option.choices and value not in option.choices:
            raise self._wrong(option, f"invalid choice: '{text}' (choose from {_choices(option)})")
        return value

    def _wrong(self, option: Argument, message: str) -> ParserError:
        return ParserError(self, f"argument {option.shown}: {message}")

    def _take_command(self, state: _State, values: dict[str, Any]) -> None:
        word = state.word
        found = [word] if word in self.commands else sorted(each for each in self.commands if each.startswith(word))
        if len(found) > 1 and word:
            raise ParserError(self, f"ambiguous command: {word} could match {', '.join(found)}")
        if len(found) != 1:
            names = ", ".join(f"'{each}'" for each in self.commands)
            error = ParserError(
                self, f"invalid choice: '{word}' (choose from {names})", "internal.UnrecognizedCommandException"
            )
            error.mistyped = word
            error.names = list(self.commands)
            raise error
        state.index += 1
        self.commands[found[0]]._parse(state, values)
        values["command"] = found[0]

    def _end(self, state: _State, values: dict[str, Any], used: Sequence[Argument]) -> None:
        """Set the values of positional arguments. A missing argument is an error only at the very end."""
        least = [max(each.counts[0], 0) if each.counts[0] != -1 else 1 for each in self.positionals]
        left = state.positionals
        if sum(least) > len(left):
            raise ParserError(self, "too few arguments")
        for at, each in enumerate(self.positionals):
            room = len(left) - sum(least[at + 1 :])
            count = min(room, 1 if each.counts[0] == -1 else each.counts[1])
            found = [self._converted(each, text) for text in left[:count]]
            left = left[count:]
            if found:
                values[each.key] = found if each.counts[1] > 1 else found[0]
        state.positionals = []
        if state.deferred is None:
            state.deferred = self._missing(used)

    def _missing(self, used: Sequence[Argument]) -> ParserError | None:
        missing = [each for each in self.options if each.is_required and each not in used]
        if missing:
            # The error names the last one of several.
            return ParserError(self, f"argument {missing[-1].shown} is required")
        for group, members in reversed(self.groups()):
            if group.is_required and not any(each in members for each in used):
                names = "".join(f"{each.shown} " for each in members)
                return ParserError(self, f"one of the arguments {names}is required")
        return None

    def groups(self) -> list[tuple[OneOf, list[Argument]]]:
        """Return the groups of options that exclude each other, with their members."""
        found: dict[OneOf, list[Argument]] = {}
        for each in self.options:
            if each.group is not None:
                found.setdefault(each.group, []).append(each)
        return list(found.items())

    def words_of_usage(self) -> list[str]:
        """Return the usage line without the tool's name."""
        words = [] if self.upper is None else [*self.upper.words_above(), self.name]
        words += [each.in_usage() for each in self.options if each.group is None]
        for group, members in self.groups():
            words += _alternatives(group, members)
        words += [each.in_usage() for each in self.positionals]
        return [*words, self.commands_shown(), "..."] if self.commands else words

    def words_above(self) -> list[str]:
        """Return this parser's required arguments, for the usage line of a sub-command."""
        words = [] if self.upper is None else [*self.upper.words_above(), self.name]
        words += [each.in_usage() for each in self.options if each.group is None and each.is_required]
        for group, members in self.groups():
            words += _alternatives(group, members) if group.is_required else []
        return words + [each.in_usage() for each in self.positionals]

    def commands_shown(self) -> str:
        """Return the sub-commands in the form of a usage line."""
        return self._commands_metavar or "{" + ",".join(self.commands) + "}"


def _alternatives(group: OneOf, members: Sequence[Argument]) -> list[str]:
    first, *others = (each.syntax() for each in members)
    if not others:
        return [first if group.is_required else members[0].in_usage()]
    opened, closed = "()" if group.is_required else "[]"
    words = [opened + first]
    for each in others:
        words += ["|", each]
    words[-1] += closed
    return words


# Printing


def report(face: Face, error: ParserError) -> None:
    """Print help on stdout, or usage, the error and suggestions on stderr."""
    if isinstance(error, HelpShown):
        if error.is_version:
            face.print(error.parser.version)
            raise ToolExit(0)
        for line in help_lines(error.parser):
            face.print(line)
        return
    for line in usage_lines(error.parser):
        face.complain(line)
    face.complain(wrapped(f"{error.parser.prog}: error: {error.message}\n"), end="")
    meant = [] if error.mistyped is None else nearest(error.mistyped, error.names)
    if meant:
        face.complain("\nDid you mean:")
    for name in meant:
        face.complain(f"\t{name}")


def usage_lines(parser: Parser) -> list[str]:
    """Return the usage of a tool."""
    start = f"usage: {parser.prog}"
    lines = [start]
    indent = " " * len(start)
    if len(start) > 30:
        indent = " " * 6
        lines.append(indent)
    for at, word in enumerate(parser.words_of_usage()):
        if at and len(lines[-1]) + len(word) + 1 > WIDTH:
            lines.append(indent)
        lines[-1] += f" {word}"
    return lines


def help_lines(parser: Parser) -> list[str]:
    """Return the help of a tool or a sub-command."""
    positionals = [(each.values_shown(), each.help) for each in parser.positionals]
    if parser.commands:
        positionals.append((parser.commands_shown(), ""))
        positionals += [(f"  {each.name}", each.about) for each in parser.commands.values()]
    options = [(_names_with_values(each), each.help) for each in parser.options]
    lines = [*usage_lines(parser), "", parser.about]
    for title, rows in (("positional arguments:", positionals), ("optional arguments:", options)):
        if rows:
            lines += ["", title, *(line for row in rows for line in help_of(*row))]
    return lines


def _names_with_values(option: Argument) -> str:
    return ", ".join(" ".join(filter(None, [name, option.values_shown()])) for name in option.names)
