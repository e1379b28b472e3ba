"""A group of commands that are imported when they are used, so that `ottla --help` imports none of them.

Owns the loading. Must not know a command.
"""

from collections.abc import Mapping
from importlib import import_module
from typing import NamedTuple

import click


class Late(NamedTuple):
    """A command's place (module and attribute) and the first sentence of its help."""

    module: str
    attribute: str
    help: str


class LateGroup(click.Group):
    """A group that knows some of its commands by their place alone."""

    def __init__(self, *args: object, late: Mapping[str, Late] | None = None, **kwargs: object) -> None:
        super().__init__(*args, **kwargs)  # type: ignore[arg-type]
        self.late = dict(late or {})

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
        """Write the list of commands without importing the late ones."""
        width = max(map(len, self.list_commands(ctx)), default=0)
        limit = formatter.width - 6 - width
        rows = []
        for name in self.list_commands(ctx):
            command = None if name in self.late else self.get_command(ctx, name)
            rows.append((name, self.late[name].help if command is None else command.get_short_help_str(limit)))
        if rows:
            with formatter.section("Commands"):
                formatter.write_dl(rows)
