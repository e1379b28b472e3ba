"""The command `ottla`, also `python -m ottla`.

Owns the signal handlers during the import of the command: a signal exits at once, because nothing has started yet.
"""

import os
import signal
import sys

# These commands run until a signal. A signal before their own handler is installed is a clean stop, too.
_UNTIL_A_SIGNAL = (["serve"], ["cluster", "up"], ["pipeline", "run"], ["pipeline", "serve"])
_INTERRUPTED = 128 + signal.SIGINT


def run() -> None:
    """Run the command that the arguments name."""
    if any(sys.argv[1 : 1 + len(words)] == words for words in _UNTIL_A_SIGNAL):
        for number in (signal.SIGINT, signal.SIGTERM):
            signal.signal(number, lambda *_: os._exit(0))
        from ottla.cli import main
    else:
        # KeyboardInterrupt in the middle of an import prints a traceback, or is ignored.
        usual = signal.signal(signal.SIGINT, lambda *_: os._exit(_INTERRUPTED))
        from ottla.cli import main

        signal.signal(signal.SIGINT, usual)
    main(prog_name="ottla")


if __name__ == "__main__":
    run()
