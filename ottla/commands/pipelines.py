"""`ottla pipeline`: runs jobs on Spark, shows their progress, and prints one line for an error.

Must not know what a job does. Counterparts in Kafka: connect-standalone.sh, connect-distributed.sh.
"""

import logging
import signal
import sys
import threading
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import closing, contextmanager
from functools import partial
from pathlib import Path
from types import MappingProxyType
from typing import Any, NamedTuple

from rich.console import Console
from rich.live import Live
from rich.text import Text

from ottla.pipeline import moving, predicates, transforms
from ottla.pipeline.checkpoint import Checkpoint, CheckpointError
from ottla.pipeline.filesystem import local_path
from ottla.pipeline.jars import NoJarsError
from ottla.pipeline.job import Job, problems
from ottla.pipeline.job_file import of_texts, read_settings, texts
from ottla.pipeline.positions import EARLIEST, LATEST, Partition, Positions, UnreachableError, by_topic
from ottla.pipeline.running import JobFailedError, Progress, Running
from ottla.pipeline.session import NoSparkError, close_session, installed, open_session
from ottla.pipeline.settings import JobError

_REFUSALS = (JobError, CheckpointError, NoJarsError, NoSparkError, UnreachableError, JobFailedError)

# The packages of `ottla[spark]`, by the names of their imports.
_OF_THE_EXTRA = ("confluent_kafka", "google", "kafka", "librt", "pandas", "py4j", "pyarrow", "pyspark")

# Less than the server's patience with a job that stops.
_STOP_SOON = {"spark.sql.streaming.stopTimeout": "5s"}


class Place(NamedTuple):
    """Where a job runs, where it keeps its position, and the settings beside its file."""

    overrides: Mapping[str, str] = MappingProxyType({})
    checkpoint: Path | None = None
    master: str | None = None
    jars: Path | None = None
    spark: Mapping[str, str] = MappingProxyType({})
    cache: Path = Path()
    bootstrap: str | None = None
    """The brokers for a job whose file names none."""

    def job(self, file: Path) -> Job:
        """Return the job that a file describes."""
        return Job(read_settings(file, self.overrides), self.bootstrap)

    def kept(self, job: Job, file: Path) -> Checkpoint:
        """Return the checkpoint of a job: `checkpoint`, or .checkpoints/NAME beside its file."""
        if self.checkpoint is None:
            return Checkpoint(file.parent / ".checkpoints" / job.name)
        return Checkpoint(_on_disk(self.checkpoint, "--checkpoint"))


def run(file: Path, place: Place, once: bool) -> int:
    """Run a job until it is done or a signal comes; return the exit code."""
    return _told(lambda: _run(file, place, once))


def validate(file: Path, place: Place) -> int:
    """Check the file of a job, without Spark; return the exit code."""

    def check() -> None:
        job = place.job(file)
        sys.stdout.write(f"{file}: {job.name} can be run\n")

    return _told(check)


def status(files: Iterable[Path], place: Place) -> int:
    """Print the progress of each job, also after an error of one; return the highest exit code."""

    def tell(file: Path) -> None:
        job = place.job(file)
        sys.stdout.write(f"{job.name}: {_status(job, place.kept(job, file))}\n")

    return max([_told(partial(tell, file)) for file in files])


def reset(file: Path, place: Place, to: str) -> int:
    """Move a job that does not run to its topics' earliest or latest offsets or to a time; return the exit code.

    A source that is no topic can be moved to its beginning only.
    """

    def move() -> None:
        job = place.job(file)
        kept = place.kept(job, file)
        if job.source.topics is None and to == "earliest":
            moving.to_start(job, kept)
            return
        offsets = moving.to_time(job, kept, {"earliest": EARLIEST, "latest": LATEST}.get(to) or _time_ms(to))
        for topic, of in offsets.items():
            for partition, offset in sorted(of.items(), key=lambda each: int(each[0])):
                sys.stdout.write(f"{topic}-{partition} {offset}\n")

    return _told(move)


def serve(directory: Path, bootstrap: str, place: Place, **more: Any) -> int:
    """Run the jobs of a directory and of Connect's clients until a signal; return the exit code."""
    return _told(lambda: _serve(directory, bootstrap, place, **more))


def _serve(directory: Path, bootstrap: str, place: Place, **more: Any) -> int:
    from ottla.pipeline.server.main import ServeOptions
    from ottla.pipeline.server.main import serve as serve_jobs

    command = [sys.executable, "-P", "-m", "ottla", "pipeline", "run"]

    def move(config: Mapping[str, str], checkpoint: Path, changes: Mapping[Partition, int | None] | None) -> None:
        job = Job(of_texts(config, config["name"]), bootstrap)
        if changes is None:
            moving.to_start(job, Checkpoint(checkpoint))
        else:
            moving.to_offsets(job, Checkpoint(checkpoint), changes)

    given = [*_given("--master", place.master), *_given("--jars", place.jars)]
    given += ["--bootstrap-server", bootstrap]
    given += [each for key, value in place.spark.items() for each in ("--conf", f"{key}={value}")]
    options = ServeOptions(
        _on_disk(directory, "DIR"),
        bootstrap,
        lambda file, checkpoint: [*command, str(file), "--checkpoint", str(checkpoint), *given],
        lambda config, name: problems(config, name, bootstrap),
        move,
        lambda file: texts(read_settings(file)),
        plugins=[
            *((f"{transforms.PACKAGE}.{name}", "transformation") for name in transforms.TRANSFORMS),
            *((f"{predicates.PACKAGE}.{name}", "predicate") for name in predicates.PREDICATES),
        ],
        **more,
    )
    return serve_jobs(options)


def _on_disk(path: Path, what: str) -> Path:
    """Return a path on this machine; JobError for a URL, because it would become a local folder of that name."""
    local = local_path(str(path))
    if local is None:
        raise JobError(f"{what} {path} is not on a disk of this machine, where it has to be")
    return local


def _given(option: str, value: object) -> list[str]:
    return [] if value is None else [option, str(value)]


def _run(file: Path, place: Place, once: bool) -> None:
    job = place.job(file)
    kept = place.kept(job, file)
    installed()
    job.check()
    stopping = threading.Event()
    for number in (signal.SIGTERM, signal.SIGINT):
        # Before Spark starts, because a signal during its start would leave the JVM behind.
        signal.signal(number, lambda *_: stopping.set())
    spark = open_session(
        job.name,
        job.needs(),
        master=place.master,
        given={**_STOP_SOON, **job.spark, **place.spark},
        jar_folder=place.jars,
        cache=place.cache,
    )
    try:
        with _progress(job.name) as tell:
            Running(job, kept, spark, tell, stopping).run(once=once)
    finally:
        close_session(spark)


def _status(job: Job, kept: Checkpoint) -> str:
    batch = kept.batch()
    if batch is None:
        return "has not run" if kept.start() is None else "was moved, and has not run since"
    said = f"{batch + 1:,} batches are done"
    topics = job.source.topics
    if topics is None:
        return said
    with closing(Positions(topics.bootstrap)) as positions:
        places = moving.places(kept, topics.partitions(positions))
        return f"{said}, lag {positions.lag(by_topic(places)):,}"


def _time_ms(text: str) -> int:
    from datetime import UTC, datetime

    try:
        time = datetime.fromisoformat(text)
    except ValueError:
        raise JobError(f"--to takes earliest, latest or a time such as 2026-01-31T12:00:00Z, not {text!r}") from None
    # Negative timestamps have other meanings in Kafka: -1 is the latest offset.
    return max(0, int((time if time.tzinfo else time.replace(tzinfo=UTC)).timestamp() * 1000))


@contextmanager
def _progress(name: str) -> Iterator[Callable[[Progress], None]]:
    """Yield a function that shows progress: in one line on a terminal, elsewhere in a line for each batch with rows."""
    console = Console(stderr=True)
    if console.is_terminal:
        with Live(Text(f"{name}: waiting"), console=console, transient=True) as live:
            yield lambda progress: live.update(Text(f"{name}: {progress}"))
    else:

        def tell(progress: Progress) -> None:
            if progress.rows:
                sys.stderr.write(f"{name}: {progress}\n")

        yield tell


def _told(work: Callable[[], int | None]) -> int:
    client = logging.getLogger("kafka")
    level = client.level
    # The callers report the client's errors themselves.
    client.setLevel(logging.CRITICAL)
    try:
        return work() or 0
    except _REFUSALS as error:
        sys.stderr.write(f"ottla: {' '.join(str(error).split())}\n")
        return 1
    except ModuleNotFoundError as error:
        if (error.name or "").partition(".")[0] not in _OF_THE_EXTRA:
            raise
        sys.stderr.write(f"ottla: {error.name} is not installed: pip install 'ottla[spark]'\n")
        return 1
    except OSError as error:
        sys.stderr.write(f"ottla: {error.filename}: {error.strerror}\n" if error.filename else f"ottla: {error}\n")
        return 1
    finally:
        client.setLevel(level)
