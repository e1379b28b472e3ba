"""One run of a command: its connection, its output, its questions, and its exit code.

Owns the mapping of a cluster's exceptions to a line on stderr and an exit code. Must not know what the command does.
"""

import os
import sys
from collections.abc import Awaitable, Callable, Mapping
from pathlib import Path
from typing import Any, Final, NamedTuple, NoReturn

import click

from ottla.client.config import ClientConfig, read_properties
from ottla.client.errors import ClientError
from ottla.scripts.terminal.endings import (
    BROKEN_PIPE,
    FAILED,
    INTERRUPTED,
    OK,
    WRONG_USAGE,
    discard_output,
    is_interrupt,
    say,
    usage_texts,
)
from ottla.scripts.terminal.output import NDJSON, TABLE, TSV, Output, default_format, explained
from ottla.scripts.terminal.profiles import read_profile
from ottla.wire.config_def import ConfigError
from ottla.wire.errors import KafkaError

_TOLD: Final = (ClientError, KafkaError, ConfigError, OSError, click.UsageError)
"""Exceptions that end a command with one line on stderr."""


class DeclinedError(ClientError):
    """The user answered no."""

    def __init__(self) -> None:
        super().__init__("nothing was changed")


class Reach(NamedTuple):
    """The options that name the cluster, before any file is read."""

    bootstrap: str | None = None
    profile: str | None = None
    command_config: Path | None = None
    timeout_seconds: float | None = None

    def config(self) -> ClientConfig:
        """Return the properties: options override the file, and the file overrides the profile."""
        properties = read_profile(self.profile, os.environ)
        if self.command_config is not None:
            properties.update(read_properties(self.command_config))
        if self.bootstrap is not None:
            properties["bootstrap.servers"] = self.bootstrap
        if self.timeout_seconds is not None:
            milliseconds = str(round(self.timeout_seconds * 1000))
            properties["default.api.timeout.ms"] = milliseconds
            properties["request.timeout.ms"] = milliseconds
        return ClientConfig(properties)


class Session:
    """The cluster and output of a command, from the options that all commands share."""

    def __init__(self, command: str, reach: Reach, form: str | None) -> None:
        self.out = Output(command, form or default_format(sys.stdout))
        self._reach = reach

    def run(
        self, work: Callable[..., Awaitable[Any]], *arguments: Any, properties: Mapping[str, str] | None = None
    ) -> NoReturn:
        """Run `await work(client, session, *arguments)` with a client, print the rows and end the process.

        `properties` override those of profile, file and options.
        """
        sys.exit(self._ended(lambda: self._run_with_client(work, arguments, properties or {})))

    def run_local(self, work: Callable[..., Any], *arguments: Any) -> NoReturn:
        """Run `work(session, *arguments)` without a cluster, print the rows and end the process."""
        sys.exit(self._ended(lambda: work(self, *arguments)))

    def _run_with_client(
        self, work: Callable[..., Awaitable[Any]], arguments: tuple[Any, ...], properties: Mapping[str, str]
    ) -> None:
        import trio

        from ottla.client.cluster import open_client

        config = self._reach.config()
        if properties:
            config = ClientConfig({**config.texts, **properties})

        async def main() -> None:
            async with open_client(config) as client:
                await work(client, self, *arguments)

        trio.run(main)

    def _ended(self, work: Callable[[], None]) -> int:
        try:
            return self._outcome(work)
        except BrokenPipeError:
            # The reader of the output has gone.
            discard_output()
            return BROKEN_PIPE

    def _outcome(self, work: Callable[[], None]) -> int:
        try:
            work()
            self.out.end()
        except _TOLD as error:
            return self._failed(error)
        except click.Abort as error:
            return self._interrupted() if is_interrupt(error) else self._failed(DeclinedError())
        except KeyboardInterrupt:
            return self._interrupted()
        except BaseExceptionGroup as group:
            # A command's own nursery wraps its exceptions in a group.
            first = _first(group)
            if isinstance(first, KeyboardInterrupt):
                return self._interrupted()
            if isinstance(first, _TOLD):
                return self._failed(first)
            raise first from None
        return FAILED if self.out.has_failed else OK

    def _interrupted(self) -> int:
        try:
            self.out.interrupt()
        except BrokenPipeError:
            # Ctrl-C ends all processes of a pipe.
            discard_output()
        return INTERRUPTED

    def _failed(self, error: Exception) -> int:
        if isinstance(error, BrokenPipeError):
            raise error
        code, text, hint = describe(error)
        self.out.fail(code, text, hint)
        self.say(f"{text}\n{hint}" if hint else text)
        return WRONG_USAGE if isinstance(error, ConfigError | click.UsageError) else FAILED

    # stderr

    def say(self, text: str) -> None:
        """Print lines on stderr."""
        say(text)

    def confirm(self, question: str, *, yes: bool) -> None:
        """Ask on the terminal before data is lost. UsageError without a terminal."""
        if yes:
            return
        if not (sys.stdin.isatty() and sys.stderr.isatty()):
            raise click.UsageError(f"{question} There is no terminal to ask: give --yes.")
        if not click.confirm(question, err=True):
            raise DeclinedError

    def dry_run(self, is_dry_run: bool) -> bool:
        """Note for the output whether this is a dry run, and return it."""
        self.out.is_dry_run = is_dry_run
        if is_dry_run and self.out.form in (TABLE, TSV):
            self.say("a dry run: nothing is changed")
        return is_dry_run

    @property
    def streams(self) -> bool:
        """Whether rows are printed at once."""
        return self.out.form in (TSV, NDJSON)


def describe(error: Exception) -> tuple[str, str, str]:
    """Return the code, the text and the hint for an error that ends a command."""
    if isinstance(error, KafkaError):
        more = explained(error)
        return error.code.name, error.code.name if more is None else f"{error.code.name}: {more}", ""
    if isinstance(error, ClientError):
        return type(error).__name__.removesuffix("Error"), str(error), error.hint
    if isinstance(error, ConfigError):
        return "Configuration", str(error), ""
    if isinstance(error, click.UsageError):
        return "Usage", usage_texts(error)[0], ""
    return type(error).__name__, str(error), ""


def _first(group: BaseExceptionGroup[BaseException]) -> BaseException:
    """Return the first exception of a group; an interrupt comes before all others."""
    leaves: list[BaseException] = []
    pending: list[BaseException] = [group]
    while pending:
        each = pending.pop(0)
        if isinstance(each, BaseExceptionGroup):
            pending += each.exceptions
        else:
            leaves.append(each)
    return next((each for each in leaves if isinstance(each, KeyboardInterrupt)), leaves[0])
