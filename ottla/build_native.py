"""`python -m ottla.build_native`: compile the modules of `native` with mypyc.

Owns: the build. Must not know: why these modules, nor when their compiled form is used. Counterpart in Kafka: none.

The build compiles a copy of the package in a temporary folder, where no other configuration applies. The result has the
digest of the sources as its name and is renamed into place as a whole. A broker may run during the build: a running
process keeps its form, and the next process loads the compiled form.
"""

import argparse
import fcntl
import json
import os
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from importlib.util import find_spec
from pathlib import Path

from ottla.native import FOLDER, GROUPS, LIBRARIES, MODULES, PACKAGE, SUFFIX, digest, source

# Only our own modules are followed: foreign types change nothing in the code, and take most of the time. A higher
# opt_level takes twice as long for two per cent.
_CONFIG = "[mypy]\nignore_missing_imports = True\nfollow_imports = skip\n"
_CONFIG += "[mypy-ottla.*,librt.*]\nfollow_imports = silent\n"
_SETUP = """
import json, os, sys
from mypyc.build import mypycify
from setuptools import setup
from setuptools.command.build_ext import build_ext
class Telling(build_ext):
    def build_extension(self, extension):
        super().build_extension(extension)
        print(extension.name, flush=True)
groups = json.loads(sys.argv[1])
files = [file for of_group in groups.values() for file in of_group]
separate = [(of_group, group) for group, of_group in groups.items()]
options = ["--config-file=mypy.ini", "--cache-dir=/dev/null"]
native = mypycify([*options, *files], opt_level="1", debug_level="0", separate=separate)
at_once = f"--parallel={os.cpu_count()}"
how = {"packages": [], "py_modules": [], "script_args": ["--quiet", "build_ext", "--inplace", at_once]}
print("translated", flush=True)
setup(name="ottla", ext_modules=native, cmdclass={"build_ext": Telling}, **how)
"""

Tell = Callable[[str], None]


def build(target: Path = FOLDER, tell: Tell = lambda line: None) -> Path:
    """Compile into the folder `target` and return the result's folder; call `tell` with each step.

    RuntimeError with the compiler's output if the build fails.
    """
    wanted = target / digest()
    with _one_at_a_time(), tempfile.TemporaryDirectory() as name:
        if wanted.is_dir():
            return wanted
        copy = Path(name)
        shutil.copytree(PACKAGE, copy / "ottla", ignore=shutil.ignore_patterns("__pycache__", FOLDER.parent.name))
        if digest() != wanted.name:
            raise RuntimeError("the sources changed while they were copied")
        (copy / "mypy.ini").write_text(_CONFIG)
        _compile(copy, tell)
        target.mkdir(parents=True, exist_ok=True)
        for old in target.iterdir():
            shutil.rmtree(old, ignore_errors=True)
        fresh = Path(tempfile.mkdtemp(dir=target))
        for library in LIBRARIES:
            shutil.copy(copy / f"{library}{SUFFIX}", fresh)
        for module in MODULES:
            shutil.copy((copy / _in_copy(module)).with_suffix(SUFFIX), fresh / f"ottla.{module}{SUFFIX}")
        return fresh.rename(wanted)


@contextmanager
def _one_at_a_time() -> Iterator[None]:
    """Hold the lock of the package: a second build waits, because it can use the result of the first."""
    descriptor = os.open(PACKAGE, os.O_RDONLY | os.O_DIRECTORY)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX)
        yield
    finally:
        os.close(descriptor)


def _compile(copy: Path, tell: Tell) -> None:
    """Compile the package in the folder `copy`."""
    if find_spec("mypyc") is None:
        raise RuntimeError("mypyc is missing: pip install 'ottla[native]'")
    groups = {group: [str(_in_copy(module)) for module in of_group] for group, of_group in GROUPS.items()}
    command = [sys.executable, "-c", _SETUP, json.dumps(groups)]
    tell(f"translating {len(MODULES)} modules to C ...")
    with open(copy / "errors", "w+") as errors:
        process = subprocess.Popen(command, cwd=copy, stdout=subprocess.PIPE, stderr=errors, text=True)
        printed = []
        with process:
            assert process.stdout is not None
            for line in map(str.strip, process.stdout):
                printed.append(line)
                if line == "translated":
                    tell(f"compiling {len(LIBRARIES)} libraries ...")
                elif line in LIBRARIES:
                    tell(f"compiled {line.removesuffix('__mypyc')}")
        if process.returncode:
            errors.seek(0)
            raise RuntimeError("\n".join([*printed, errors.read()]).strip())


def _in_copy(module: str) -> Path:
    return source(module).relative_to(PACKAGE.parent)


def main() -> int:
    """Build, and report each step on stderr; return the exit code."""
    parser = argparse.ArgumentParser(prog="python -m ottla.build_native", description="Compile the hot path of Ottla.")
    parser.add_argument("--if-possible", action="store_true", help="exit 0 also without mypyc or a C compiler")
    parser.add_argument("--quiet", action="store_true", help="print only the result")
    parser.add_argument("--background", action="store_true", help="return at once, and compile with a low priority")
    arguments = parser.parse_args()
    if (FOLDER / digest()).is_dir():
        return 0
    if arguments.background:
        return _begin_in_background()
    began = time.monotonic()
    try:
        build(tell=lambda line: None if arguments.quiet else _say(f"[{time.monotonic() - began:2.0f} s] {line}"))
    except (RuntimeError, OSError) as error:
        reason = (str(error).splitlines() or ["unknown"])[-1]
        _say(f"nothing is compiled, plain Python runs: {reason}")
        return 0 if arguments.if_possible else 1
    except KeyboardInterrupt:
        _say("nothing is compiled: interrupted")
        return 130
    _say(f"{len(MODULES)} modules are compiled; a broker that starts from now on uses them")
    return 0


def _begin_in_background() -> int:
    if shutil.which(os.environ.get("CC", "cc")) is None:
        _say("there is no C compiler: the broker runs in plain Python, slower")
        return 0
    _say("Compiling the hot path in the background, for about a minute, for the next start.")
    _say("Until then the broker runs in plain Python, slower.")
    command = ["nice", "-n", "19", sys.executable, "-m", "ottla.build_native", "--if-possible", "--quiet"]
    subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL)
    return 0


def _say(line: str) -> None:
    sys.stderr.write(f"{line}\n")


if __name__ == "__main__":
    sys.exit(main())
