"""`ottla pipeline example`: writes an example job to ./examples, where its user can run and change it.

Owns: the folder of the examples, in a checkout and in an installed package. Must not know what a job is.
Counterpart in Kafka: `config/connect-file-source.properties` and its neighbours.
"""

import sys
from pathlib import Path
from typing import Final

from ottla.native import PACKAGE

_INSTALLED: Final = PACKAGE / "examples"
FOLDER: Final = _INSTALLED if _INSTALLED.is_dir() else PACKAGE.parent / "examples"


def names() -> list[str]:
    """Return the names of the examples."""
    return sorted(path.stem for path in FOLDER.glob("*.toml"))


def write(name: str | None, target: Path) -> int:
    """Write an example and the files it reads to `target`/examples, or list all examples; return the exit code."""
    if name is None:
        width = max(map(len, names()))
        sys.stdout.writelines(f"{each:<{width}}  {_summary(each)}\n" for each in names())
        return 0
    if name not in names():
        sys.stderr.write(f"ottla: there is no example {name!r}; there are {', '.join(names())}\n")
        return 1
    copies = {path: target / "examples" / path.relative_to(FOLDER) for path in _files(name)}
    for path, copy in copies.items():
        if copy.exists() and copy.read_bytes() != path.read_bytes():
            sys.stderr.write(f"ottla: {copy} exists and differs from the example; nothing is written\n")
            return 1
    for path, copy in copies.items():
        copy.parent.mkdir(parents=True, exist_ok=True)
        copy.write_bytes(path.read_bytes())
        sys.stdout.write(f"{copy}\n")
    return 0


def _summary(name: str) -> str:
    """Return the comment at the head of a job's file, up to the command that runs the job."""
    head, _, _ = (FOLDER / f"{name}.toml").read_text().partition("\n#\n")
    return " ".join(line.removeprefix("#").strip() for line in head.splitlines())


def _files(name: str) -> list[Path]:
    """Return the job's file, and the files of each folder of examples that the job names."""
    job = FOLDER / f"{name}.toml"
    text = job.read_text()
    folders = [each for each in sorted(FOLDER.iterdir()) if each.is_dir() and f'"examples/{each.name}"' in text]
    return [job, *(path for folder in folders for path in sorted(folder.iterdir()) if path.is_file())]
