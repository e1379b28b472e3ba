"""The program that shims run: `python -m ottla.scripts.kafka [--as 3.9] TOOL ARGUMENTS...`."""

import sys
from importlib import import_module

from ottla.scripts.kafka import TOOLS
from ottla.scripts.kafka.absent import ABSENT, refuse
from ottla.scripts.kafka.face import Face, JavaError, Release, ToolExit


def run(arguments: list[str]) -> int:
    """Run a tool; return its exit code."""
    release = Release.V4_3
    if arguments[:1] == ["--as"]:
        release, arguments = Release(arguments[1]), arguments[2:]
    if arguments and arguments[0] in ABSENT:
        return refuse(arguments[0], Face(release))
    if not arguments or arguments[0] not in TOOLS:
        sys.stderr.write(f"usage: python -m ottla.scripts.kafka [--as 3.9|4.3] {'|'.join(sorted(TOOLS))} ...\n")
        return 2
    face = Face(release)
    try:
        code: int = import_module(f"ottla.scripts.kafka.tools.{TOOLS[arguments[0]]}").main(arguments[1:], face)
    except ToolExit as end:
        code = end.code
    except JavaError as error:
        first, *causes = error.trace()
        for line in (f'Exception in thread "main" {first}', *causes):
            face.complain(line)
        code = 1
    except KeyboardInterrupt:
        code = 130
    except BrokenPipeError:
        return 141
    face.flush()
    return code


if __name__ == "__main__":
    sys.exit(run(sys.argv[1:]))
