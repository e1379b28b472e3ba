"""The end of an invalid or interrupted command line: a line on stderr, a document if `--output` names one, a code.

Owns the exit codes, and their mapping from click's exceptions; `session` maps those of a cluster. Must not know a
command.
"""

import os
import sys
from collections.abc import Sequence
from typing import Final, NoReturn

import click

OK: Final = 0
FAILED: Final = 1
WRONG_USAGE: Final = 2
INTERRUPTED: Final = 130
BROKEN_PIPE: Final = 141
_USAGE: Final = "Usage"


def say(text: str) -> None:
    """Print lines on stderr."""
    for line in text.splitlines():
        click.echo(f"ottla: {line}", err=True)


def usage_texts(error: click.ClickException) -> tuple[str, str]:
    """Return the error of a command line in one line, and a hint."""
    text = " ".join(error.format_message().split())
    context = getattr(error, "ctx", None)
    return text, f"See `{context.command_path} --help`." if context is not None else ""


def end_wrongly(error: click.ClickException, arguments: Sequence[str]) -> NoReturn:
    """End the process after an invalid command line, with a document if its `--output` names one."""
    if isinstance(error, click.exceptions.NoArgsIsHelpError):
        error.show()
        sys.exit(WRONG_USAGE)
    text, hint = usage_texts(error)
    try:
        _print_document(error, arguments, text, hint)
    except BrokenPipeError:
        discard_output()
    say(f"{text}{'' if text.endswith(('.', '?')) else '.'} {hint}".rstrip())
    sys.exit(error.exit_code)


def _print_document(error: click.ClickException, arguments: Sequence[str], text: str, hint: str) -> None:
    from ottla.scripts.terminal.output import FORMATS, Output

    form = _format_of(arguments)
    context = getattr(error, "ctx", None)
    if form not in FORMATS or context is None:
        return
    flags = {flag for each in context.command.params for flag in each.opts}
    if "--output" not in flags and not isinstance(context.command, click.Group):
        return
    output = Output(context.command_path.partition(" ")[2], form)
    if "--dry-run" in flags:
        output.is_dry_run = "--dry-run" in arguments
    output.fail(_USAGE, text, hint)


def _format_of(arguments: Sequence[str]) -> str | None:
    """Return the value of `--output` in an invalid command line; None if there is none."""
    found = None
    for each, following in zip(arguments, [*arguments[1:], None], strict=True):
        flag, equals, value = each.partition("=")
        if each == "--":
            break
        if each in ("-o", "--output"):
            found = following
        elif flag == "--output" and equals:
            found = value
        elif each.startswith("-o"):
            found = each.removeprefix("-o")
    return found


def is_interrupt(error: click.Abort) -> bool:
    """Whether a question ended with Ctrl-C, and not with the end of the input."""
    return isinstance(error.__cause__ or error.__context__, KeyboardInterrupt)


def end_aborted(error: click.Abort) -> NoReturn:
    """End the process after a question without an answer, or after Ctrl-C before a command began."""
    if is_interrupt(error):
        sys.exit(INTERRUPTED)
    say("nothing was changed")
    sys.exit(FAILED)


def discard_output() -> None:
    """Send stdout to /dev/null, because its reader has gone and Python would print an error at exit."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
