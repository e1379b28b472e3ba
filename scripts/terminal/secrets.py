"""Secrets of a command: from a file, from the environment, or from a hidden prompt; never an argument.

Owns the options and the reading. Must not know the use of a secret.
"""

import os
import sys
from collections.abc import Callable
from functools import wraps
from pathlib import Path
from typing import Any, TypeVar

import click

from ottla.scripts.terminal.files import read_text

F = TypeVar("F", bound=Callable[..., Any])


def takes_secret(name: str, what: str, *, is_new: bool = False) -> Callable[[F], F]:
    """Add `--NAME-file` and `--NAME-env`, and without them a prompt; the command gets the secret as `NAME`.

    The prompt asks twice if the secret `is_new`.
    """

    def decorate(command: F) -> F:
        @wraps(command)
        def with_secret(*arguments: Any, **options: Any) -> None:
            file, variable = options.pop(f"{name}_file"), options.pop(f"{name}_env")
            command(*arguments, **options, **{name: _read(name, what, is_new, file, variable)})

        by_variable = click.option(f"--{name}-env", metavar="NAME", help=f"Read {what} from this environment variable.")
        by_file = click.option(
            f"--{name}-file",
            type=click.Path(exists=True, dir_okay=False, path_type=Path),
            metavar="FILE",
            help=f"Read {what} from this file. The default, without --{name}-env, is a prompt.",
        )
        wrapped: Any = by_file(by_variable(with_secret))
        return wrapped  # type: ignore[no-any-return]

    return decorate


def _read(name: str, what: str, is_new: bool, file: Path | None, variable: str | None) -> str:
    if file is not None and variable is not None:
        raise click.UsageError(f"--{name}-file and --{name}-env exclude each other")
    if file is not None:
        return read_text(file).rstrip("\r\n")
    if variable is not None:
        if variable not in os.environ:
            raise click.UsageError(f"the environment has no {variable}")
        return os.environ[variable]
    if not sys.stdin.isatty():
        raise click.UsageError(f"there is no terminal to prompt for {what}: give --{name}-file or --{name}-env")
    text = what.removeprefix("the ")
    found: str = click.prompt(text[:1].upper() + text[1:], hide_input=True, confirmation_prompt=is_new, err=True)
    return found
