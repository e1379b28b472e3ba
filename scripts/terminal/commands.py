"""A click group that imports commands when they are used, so that `ottla --help` imports none.

Owns the loading, and the end of an invalid command line. Must not know a command.
"""

import sys
from collections.abc import Mapping, Sequence
from importlib import import_module
from typing import Any, NamedTuple

import click

from ottla.scripts.terminal.endings import end_aborted, end_wrongly


class Late(NamedTuple):
    """A command's module and attribute, and the first sentence of its help."""

    module: str
    attribute: str
    help: str


class LateGroup(click.Group):
    """A group with some commands that are imported late."""

    def __init__(
        self, *args: object, late: Mapping[str, Late] | None = None, heading: str = "Commands", **kwargs: object
    ) -> None:
        """`heading` is the heading of the late commands in the help."""
        super().__init__(*args, **kwargs)  # type: ignore[arg-type]
        self.late = dict(late or {})
        self.heading = heading

    def main(
        self,
        args: Sequence[str] | None = None,
        prog_name: str | None = None,
        complete_var: str | None = None,
        standalone_mode: bool = True,
        **extra: Any,
    ) -> Any:
        """Run the command of the arguments, and end the process unless `standalone_mode` is off."""
        arguments = sys.argv[1:] if args is None else list(args)
        if not standalone_mode:
            return super().main(arguments, prog_name, complete_var, standalone_mode=False, **extra)
        try:
            code = super().main(arguments, prog_name, complete_var, standalone_mode=False, **extra)
        except click.ClickException as error:
            end_wrongly(error, arguments)
        except click.Abort as error:
            end_aborted(error)
        sys.exit(code)

    def list_commands(self, ctx: click.Context) -> list[str]:
        """Return all names."""
        return sorted({*super().list_commands(ctx), *self.late})

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        """Return a command, imported now if it is a late one."""
        late = self.late.get(cmd_name)
        if late is None:
            return super().get_command(ctx, cmd_name)
        command: click.Command = getattr(import_module(late.module), late.attribute)
        return command

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """Write the lists of commands without importing the late ones."""
        limit = formatter.width - 6 - max(map(len, self.list_commands(ctx)), default=0)
        own = [(name, self.commands[name].get_short_help_str(limit)) for name in sorted(self.commands)]
        late = [(name, self.late[name].help) for name in sorted(self.late)]
        sections = {"Commands": own}
        sections[self.heading] = [*sections.get(self.heading, ()), *late]
        for heading, rows in sections.items():
            with formatter.section(heading):
                formatter.write_dl(sorted(rows))
