"""The command `ottla`, which `python -m ottla` is too.

Owns what a signal does while the command is imported: nothing has begun then that would have to be ended in order.
"""

import os
import signal
import sys

# These run until a signal. One that comes before they look out for it is a clean stop all the same.
_UNTIL_A_SIGNAL = (["serve"], ["cluster", "up"], ["pipeline", "run"], ["pipeline", "serve"])
_INTERRUPTED = 128 + signal.SIGINT


def run() -> None:
    """Run the command that the arguments name."""
    if any(sys.argv[1 : 1 + len(words)] == words for words in _UNTIL_A_SIGNAL):
        for number in (signal.SIGINT, signal.SIGTERM):
            signal.signal(number, lambda *_: os._exit(0))
        from ottla.cli import main
    else:
        # KeyboardInterrupt in the middle of an import is a traceback, or is passed over.
        usual = signal.signal(signal.SIGINT, lambda *_: os._exit(_INTERRUPTED))
        from ottla.cli import main

        signal.signal(signal.SIGINT, usual)
    main(prog_name="ottla")


if __name__ == "__main__":
    run()
