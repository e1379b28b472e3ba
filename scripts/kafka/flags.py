"""Command lines as Kafka's parser joptsimple reads them, with its error messages.

PURE. Counterparts: joptsimple.OptionParser, org.apache.kafka.server.util.CommandLineUtils.
"""

from collections.abc import Callable, Iterable, Sequence
from typing import Any, Final, NamedTuple

from ottla.scripts.kafka.face import Face, JavaError, ToolExit

_OPTION_ERROR: Final = "joptsimple."


class Flag(NamedTuple):
    """A flag: its names, the name of its argument (None: without argument), and our help."""

    names: tuple[str, ...]
    argument: str | None
    help: str
    type: Callable[[str], Any] = str
    default: Any = None
    is_optional_argument: bool = False
    separator: str | None = None

    @property
    def name(self) -> str:
        """Return the first name."""
        return self.names[0]

    def __str__(self) -> str:
        # The form of an option in messages.
        return f"[{', '.join(self.names)}]"


def flag(*names: str, argument: str | None = None, help: str, **more: Any) -> Flag:
    """Return a flag."""
    return Flag(names, argument, help, **more)


HELP: Final = flag("help", help="Print usage information.")
VERSION: Final = flag("version", help="Display Kafka version.")


class Parsed:
    """A parsed command line."""

    def __init__(self, flags: Sequence[Flag]) -> None:
        self._by_name = {name: each for each in flags for name in each.names}
        self._found: dict[Flag, list[str]] = {}
        self.rest: list[str] = []
        self.given: list[str] = []
        """The flags by their first names, in the order of the command line, with repetitions."""

    def has(self, name: str) -> bool:
        """Whether a flag was given, under any of its names."""
        return self._by_name[name] in self._found

    def value(self, name: str) -> Any:
        """Return the converted argument of a flag, or its default. JavaError if it was given several times."""
        values = self.values(name)
        if len(values) > 1:
            raise _error(
                "MultipleArgumentsForOptionException",
                f"Found multiple arguments for option {_shown(self._by_name[name])}, but you asked for only one",
            )
        return values[0] if values else None

    def values(self, name: str) -> list[Any]:
        """Return all converted arguments of a flag; its default if it was not given."""
        option = self._by_name[name]
        texts = self._found.get(option)
        if texts is None:
            return [] if option.default is None else [option.default]
        return [_converted(option, text) for text in texts]

    def add(self, name: str, text: str | None) -> None:
        """Note a flag, and its argument if it has one."""
        option = self._by_name[name]
        self.given.append(option.name)
        found = self._found.setdefault(option, [])
        if text is not None:
            # Empty values between separators are dropped, but an empty argument is a value.
            found += [each for each in text.split(option.separator) if each] or [text] if option.separator else [text]

    def knows(self, name: str) -> bool:
        """Whether there is such a flag."""
        return name in self._by_name

    def flag(self, name: str) -> Flag:
        """Return a flag by a name."""
        return self._by_name[name]


def parse(flags: Sequence[Flag], arguments: Sequence[str]) -> Parsed:
    """Return a parsed command line. JavaError, in the parser's words, for an invalid one."""
    parsed = Parsed(flags)
    left = list(arguments)
    while left:
        word = left.pop(0)
        if word == "--":
            parsed.rest += left
            break
        if word.startswith("--") or (word.startswith("-") and len(word) > 1):
            _take(parsed, word, left)
        else:
            parsed.rest.append(word)
    return parsed


def _take(parsed: Parsed, word: str, left: list[str]) -> None:
    name, equals, text = word.lstrip("-").partition("=")
    if not parsed.knows(name):
        # After a single hyphen come one-letter options; the error names the first unknown one.
        is_cluster = not word.startswith("--")
        shown = next((each for each in name if not parsed.knows(each)), name) if is_cluster else name
        raise _error("UnrecognizedOptionException", f"{shown} is not a recognized option")
    option = parsed.flag(name)
    if option.argument is None:
        parsed.add(name, None)
    elif equals:
        parsed.add(name, text)
    elif option.is_optional_argument:
        parsed.add(name, left.pop(0) if left and _may_follow(option, left[0]) else None)
    elif left:
        parsed.add(name, left.pop(0))
    else:
        raise _error("OptionMissingRequiredArgumentException", f"Option {_shown(option)} requires an argument")


def _may_follow(option: Flag, word: str) -> bool:
    """Whether a word is the argument of a flag with an optional one. Only a number may begin with a hyphen."""
    try:
        option.type(word)
    except ValueError:
        return False
    return option.type is not str or not word.startswith("-")


def _converted(option: Flag, text: str) -> Any:
    try:
        return option.type(text)
    except ValueError as error:
        message = f"Cannot parse argument '{text}' of option {_shown(option)}"
        raise JavaError(f"{_OPTION_ERROR}OptionArgumentConversionException", message, _cause(error, text)) from None


def _cause(error: ValueError, text: str) -> JavaError:
    """Return the cause of a failed conversion: the converter's own JavaError, or Java's NumberFormatException."""
    if error.args and isinstance(error.args[0], JavaError):
        return error.args[0]
    cause = JavaError("java.lang.NumberFormatException", f'For input string: "{text}"')
    return JavaError("joptsimple.internal.ReflectionException", str(cause), cause)


def _shown(option: Flag) -> str:
    return option.name if len(option.names) == 1 else f"[{', '.join(option.names)}]"


def _error(kind: str, message: str) -> JavaError:
    return JavaError(_OPTION_ERROR + kind, message)


# Checks


def print_usage_and_exit(face: Face, flags: Sequence[Flag], message: str) -> ToolExit:
    """Print a message and the flags on stderr; return the ToolExit with code 1."""
    face.complain(message)
    for line in help_lines(flags):
        face.complain(line)
    return ToolExit(1)


def maybe_print_help_or_version(
    face: Face, flags: Sequence[Flag], parsed: Parsed, arguments: Sequence[str], about: str
) -> None:
    """End the tool after help (also for an empty command line) or after its version."""
    if not arguments or parsed.has("help"):
        raise print_usage_and_exit(face, flags, about)
    if parsed.has("version"):
        face.print(face.release.version)
        raise ToolExit(0)


def check_required(face: Face, flags: Sequence[Flag], parsed: Parsed, *names: str) -> None:
    """End the tool unless all of these flags were given."""
    for name in names:
        if not parsed.has(name):
            raise print_usage_and_exit(face, flags, f'Missing required argument "{parsed.flag(name)}"')


def check_invalid(face: Face, flags: Sequence[Flag], parsed: Parsed, used: str, invalid: Iterable[str]) -> None:
    """End the tool if a flag was given together with one that it excludes."""
    for name in invalid if parsed.has(used) else ():
        if parsed.has(name):
            message = f'Option "{parsed.flag(used)}" can\'t be used with option "{parsed.flag(name)}"'
            raise print_usage_and_exit(face, flags, message)


def help_lines(flags: Sequence[Flag]) -> list[str]:
    """Return a table of flags."""
    rows = []
    for each in sorted(flags, key=lambda it: it.name):
        argument = "" if each.argument is None else f" <{each.argument}>"
        rows.append((", ".join(f"--{name}" for name in each.names) + argument, each.help))
    width = min(42, max(len(left) for left, _ in rows))
    lines = [f"{'Option':<{width}}  Description", f"{'------':<{width}}  -----------"]
    for left, text in rows:
        lines += [f"{left:<{width}}  {text}"] if len(left) <= width else [left, f"{'':<{width}}  {text}"]
    return lines
