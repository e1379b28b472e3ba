"""`python -m ottla.wire.build_scan`: compile a copy of `record_scan` with mypyc and put it beside its source.

Owns: the build. Must not know: what is compiled, nor who uses it; `native_scan` decides that, and does without it.
Counterpart in Kafka: none.

The copy has another module name, so that the plain form stays importable and an edited source is never shadowed; it
carries the digest of the source it was made of, so that one that no longer fits is not used.
"""

import argparse
import shutil
import subprocess
import sys
import tempfile
from importlib.machinery import EXTENSION_SUFFIXES
from pathlib import Path

from ottla.wire.native_scan import NATIVE, SOURCE, source_digest

HERE = Path(__file__).resolve().parent


def build(target: Path = HERE) -> Path:
    """Compile into the folder `target`. RuntimeError with the compiler's words if that fails."""
    with tempfile.TemporaryDirectory() as folder:
        # Compiled outside of a package: mypyc would split a package's module into two libraries.
        copy = Path(folder, f"{NATIVE}.py")
        copy.write_text(f'{(HERE / SOURCE).read_text()}\n\nSOURCE_DIGEST = "{source_digest()}"\n')
        command = [sys.executable, "-m", "mypyc", copy.name]
        done = subprocess.run(command, cwd=folder, capture_output=True, text=True)
        built = copy.with_name(NATIVE + EXTENSION_SUFFIXES[0])
        if done.returncode or not built.exists():
            raise RuntimeError((done.stdout + done.stderr).strip())
        # Another process may have the old one mapped: it is replaced, never overwritten.
        fresh = target / f"{built.name}.new"
        shutil.copyfile(built, fresh)
        return fresh.replace(target / built.name)


def main() -> int:
    """Build, and say in one line how that went."""
    parser = argparse.ArgumentParser(prog="python -m ottla.wire.build_scan", description=build.__doc__)
    parser.add_argument("--if-possible", action="store_true", help="without mypyc or a C compiler, exit 0 all the same")
    arguments = parser.parse_args()
    try:
        path = build()
    except (RuntimeError, OSError) as error:
        reason = (str(error).splitlines() or ["unknown"])[-1]
        sys.stderr.write(f"record_scan is not compiled, its plain form will be used: {reason}\n")
        return 0 if arguments.if_possible else 1
    sys.stdout.write(f"record_scan is compiled: {path.name}\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())
