"""All commands: the list repeats the first line of each help, and imports no command."""

import subprocess
import sys

import click
import pytest

from ottla.cli import main
from ottla.scripts.terminal.commands import LateGroup

assert isinstance(main, LateGroup)
LATE = main.late


@pytest.mark.parametrize("name", LATE)
def test_the_list_of_commands_repeats_the_first_line_of_each_help(name: str) -> None:
    command = main.get_command(click.Context(main), name)
    assert command is not None
    assert command.name == name
    assert command.help is not None
    assert command.help.splitlines()[0] == LATE[name].help


def test_the_list_of_commands_imports_none_of_them() -> None:
    program = (
        "import sys; from ottla.cli import main\n"
        "try: main(['--help'])\n"
        "except SystemExit: pass\n"
        "heavy = {'trio', 'rich', 'ottla.wire.codec', 'ottla.client.cluster'}\n"
        "sys.exit(', '.join(heavy & set(sys.modules)) or 0)"
    )
    done = subprocess.run([sys.executable, "-P", "-c", program], capture_output=True, text=True, timeout=120)
    assert (done.returncode, done.stderr) == (0, "")
    for name in LATE:
        assert f"  {name} " in done.stdout
