"""`python -m ottla.build_native`: compile the modules of `native` with mypyc.

Owns: the build. Must not know: why these modules, nor when their compiled form is used. Counterpart in Kafka: none.

A copy of the package is compiled, in a folder of its own: no configuration that lies about has a part in it, and what
it leaves behind goes with it. The result gets its name from the sources, so that it is there as a whole or not at all.
"""

import argparse
import json
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

from ottla.native import FOLDER, GROUPS, LIBRARIES, MODULES, PACKAGE, SUFFIX, digest, source

# Nothing but our own modules is gone into: what others declare makes no difference to the code, and their types take
# most of the time. At a higher level the compiler takes twice as long for two per cent.
_CONFIG = "[mypy]\nignore_missing_imports = True\nfollow_imports = skip\n"
_CONFIG += "[mypy-ottla.*,librt.*]\nfollow_imports = silent\n"
_SETUP = """
import json, os, sys
from mypyc.build import mypycify
from setuptools import setup
groups = json.loads(sys.argv[1])
files = [file for of_group in groups.values() for file in of_group]
separate = [(of_group, group) for group, of_group in groups.items()]
options = ["--config-file=mypy.ini", "--cache-dir=/dev/null"]
native = mypycify([*options, *files], opt_level="1", debug_level="0", separate=separate)
at_once = f"--parallel={os.cpu_count()}"
how = {"packages": [], "py_modules": [], "script_args": ["--quiet", "build_ext", "--inplace", at_once]}
setup(name="ottla", ext_modules=native, **how)
"""


def build(target: Path = FOLDER) -> Path:
    """Compile into the folder `target`. RuntimeError with the compiler's words if that fails."""
    wanted = target / digest()
    with tempfile.TemporaryDirectory() as name:
        copy = Path(name)
        shutil.copytree(PACKAGE, copy / "ottla", ignore=shutil.ignore_patterns("__pycache__", FOLDER.parent.name))
        (copy / "mypy.ini").write_text(_CONFIG)
        groups = {group: [str(_in_copy(module)) for module in of_group] for group, of_group in GROUPS.items()}
        command = [sys.executable, "-c", _SETUP, json.dumps(groups)]
        done = subprocess.run(command, cwd=copy, capture_output=True, text=True)
        if done.returncode:
            raise RuntimeError((done.stdout + done.stderr).strip())
        target.mkdir(parents=True, exist_ok=True)
        for old in target.iterdir():
            shutil.rmtree(old, ignore_errors=True)
        fresh = Path(tempfile.mkdtemp(dir=target))
        for library in LIBRARIES:
            shutil.copy(copy / f"{library}{SUFFIX}", fresh)
        for module in MODULES:
            shutil.copy((copy / _in_copy(module)).with_suffix(SUFFIX), fresh / f"ottla.{module}{SUFFIX}")
        return fresh.rename(wanted)


def _in_copy(module: str) -> Path:
    return source(module).relative_to(PACKAGE.parent)


def main() -> int:
    """Build, and say in one line how that went."""
    parser = argparse.ArgumentParser(prog="python -m ottla.build_native", description=build.__doc__)
    parser.add_argument("--if-possible", action="store_true", help="without mypyc or a C compiler, exit 0 all the same")
    arguments = parser.parse_args()
    if (FOLDER / digest()).is_dir():
        return 0
    try:
        path = build()
    except (RuntimeError, OSError) as error:
        reason = (str(error).splitlines() or ["unknown"])[-1]
        sys.stderr.write(f"nothing is compiled, the plain form will run: {reason}\n")
        return 0 if arguments.if_possible else 1
    sys.stdout.write(f"{len(MODULES)} modules are compiled: {path.name}\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())
