"""A server of jobs as a process of its own, with jobs that do nothing. Started with a JSON object of its options."""

import json
import sys
from pathlib import Path

import javaproperties

from ottla.pipeline.server.main import ServeOptions, serve
from ottla.pipeline.settings import JobError

from .jobs import Journal


def validate(config: dict[str, str], file: str) -> list[tuple[str, str]]:
    return [(key, f"{file}: {key} is unknown") for key in config if key not in ("name", "does", "mark", "source.type")]


def refuse(config: dict[str, str], *_: object) -> None:
    raise JobError(f"{config['name']} does nothing, anywhere")


def read(file: Path) -> dict[str, str]:
    text = file.read_text()
    if file.suffix == ".toml":
        raise JobError(f"{file}: there is no TOML in these tests")
    return {str(key): str(value) for key, value in javaproperties.loads(text).items()}


def main(told: str) -> int:
    options = json.loads(told)
    directory, journal = Path(options.pop("directory")), Journal(Path(options.pop("journal")))
    return serve(ServeOptions(directory, command=journal.command, validate=validate, move=refuse, read=read, **options))


if __name__ == "__main__":
    sys.exit(main(sys.argv[1]))
