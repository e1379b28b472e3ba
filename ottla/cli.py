"""The command `ottla`: reads its arguments and hands them on.

Knows no broker: whatever is heavy is imported by the subcommand that needs it. Counterpart: kafka-server-start.sh.
"""

import os
import sys
from pathlib import Path
from typing import NoReturn

import click

from ottla.loggers import FORMATS, LEVELS

_PROPERTIES = click.argument(
    "properties", required=False, type=click.Path(path_type=Path), metavar="[SERVER.PROPERTIES]"
)
_OVERRIDES = click.option(
    "--override", "overrides", multiple=True, metavar="KEY=VALUE", help="Set a key over file and environment."
)
_ZOOKEEPER = click.option("--zookeeper", metavar="HOST:PORT[/PATH]", help="The same as --override zookeeper.connect=.")


@click.group(context_settings={"help_option_names": ["-h", "--help"]})
@click.version_option(package_name="ottla", message="%(prog)s %(version)s")
def main() -> None:
    """Run Ottla, a Kafka broker in Python."""


@main.command()
@_PROPERTIES
@_OVERRIDES
@click.option(
    "--log-format",
    type=click.Choice(list(FORMATS)),
    default="text",
    help="How the lines on stderr look: as Kafka's, or one JSON object each.",
)
@click.option(
    "--log-level",
    "levels",
    multiple=True,
    metavar="[LOGGER=]LEVEL",
    help=f"The least level to tell of, one of {', '.join(LEVELS)}; with a logger's name, for that one. Default: INFO.",
)
def serve(properties: Path | None, overrides: tuple[str, ...], log_format: str, levels: tuple[str, ...]) -> None:
    """Serve Kafka clients until SIGTERM or SIGINT.

    Keys are Kafka's. They are read from the file, then from KAFKA_* environment variables as Kafka's container image
    maps them, then from --override; the last one counts.
    """
    pairs = dict(_pair(override) for override in overrides)
    by_logger = dict(_level(level) for level in levels)
    from ottla.serving import run

    sys.exit(run(properties, pairs, os.environ, log_format, by_logger))


@main.command()
@click.argument("directories", nargs=-1, required=True, type=click.Path(exists=True, file_okay=False, path_type=Path))
@click.option("--repair", is_flag=True, help="Make anew what can be made from the batches; cut what was never flushed.")
def verify(directories: tuple[Path, ...], repair: bool) -> None:
    """Go through the data of a broker that does not run: log directories, or directories of partitions.

    Those of Kafka are read, too. There is a line for each thing that is wrong; the exit code is 1 then, else 0.
    """
    from ottla import verifying

    sys.exit(verifying.run(directories, repair))


@main.group()
def cluster() -> None:
    """Try several brokers on this machine."""


@cluster.command()
@click.option("--brokers", type=click.IntRange(1, 100), default=3, show_default=True, help="How many there are.")
@click.option(
    "--port",
    type=click.IntRange(0, 65535),
    default=9092,
    show_default=True,
    help="That of the first broker, the others get those that follow; 0 has each take a free one.",
)
@click.option(
    "--data",
    type=click.Path(path_type=Path),
    default=Path("data/cluster"),
    show_default=True,
    help="Where all data is kept, for the next time too.",
)
@click.option("--zookeeper", metavar="HOST:PORT", help="Use a ZooKeeper that runs. Otherwise one is started, by java.")
@click.option(
    "--zookeeper-jars",
    type=click.Path(exists=True, file_okay=False, path_type=Path),
    metavar="DIR",
    help="Start ZooKeeper from these jars. Otherwise mvn fetches them, once.",
)
@click.option(
    "--override", "overrides", multiple=True, metavar="KEY=VALUE", help="Set one of Kafka's keys for all brokers."
)
def up(
    brokers: int,
    port: int,
    data: Path,
    zookeeper: str | None,
    zookeeper_jars: Path | None,
    overrides: tuple[str, ...],
) -> None:
    """Run a ZooKeeper and some brokers until SIGTERM or SIGINT, and show how they are."""
    pairs = dict(_pair(override) for override in overrides)
    from ottla import local_cluster
    from ottla.zookeeper_process import cache_folder

    cache = cache_folder(os.environ)
    sys.exit(local_cluster.up(local_cluster.Plan(brokers, port, data, zookeeper, zookeeper_jars, cache, pairs)))


_JOB = click.argument("file", type=click.Path(exists=True, dir_okay=False, path_type=Path), metavar="JOB")
_CHECKPOINT = click.option(
    "--checkpoint",
    type=click.Path(file_okay=False, path_type=Path),
    metavar="DIR",
    help="Where the job keeps where it is. Default: .checkpoints/NAME beside its file.",
)
_MASTER = click.option("--master", metavar="URL", help="The Spark to run on. Default: one of its own, here.")
_JARS = click.option(
    "--jars",
    type=click.Path(exists=True, file_okay=False, path_type=Path),
    metavar="DIR",
    help="Take Spark's jars from here. Otherwise mvn fetches them, once, or Spark itself does.",
)
_CONF = click.option("--conf", "conf", multiple=True, metavar="KEY=VALUE", help="Set one of Spark's keys.")
_JOB_OVERRIDES = click.option(
    "--override", "overrides", multiple=True, metavar="KEY=VALUE", help="Set one of the job's keys over its file."
)


@main.group()
def pipeline() -> None:
    """Run jobs on Spark that bring data into topics, through them and out of them. Needs ottla[spark]."""


@pipeline.command("run")
@_JOB
@click.option("--once", is_flag=True, help="End when all is done that there is now.")
@_JOB_OVERRIDES
@click.option("--bootstrap-server", metavar="HOST:PORT", help="The brokers of a job that names none.")
@_CHECKPOINT
@_MASTER
@_JARS
@_CONF
def run_job(
    file: Path,
    once: bool,
    overrides: tuple[str, ...],
    bootstrap_server: str | None,
    checkpoint: Path | None,
    master: str | None,
    jars: Path | None,
    conf: tuple[str, ...],
) -> None:
    """Run a job, until a signal says to stop."""
    keys, pairs = dict(_pair(each, "--conf") for each in conf), dict(map(_pair, overrides))
    from ottla import pipelines
    from ottla.zookeeper_process import cache_folder

    place = pipelines.Place(pairs, checkpoint, master, jars, keys, cache_folder(os.environ), bootstrap_server)
    sys.exit(pipelines.run(file, place, once))


@pipeline.command("validate")
@_JOB
@_JOB_OVERRIDES
def validate_job(file: Path, overrides: tuple[str, ...]) -> None:
    """Say what is wrong with a job, as far as its file tells."""
    pairs = dict(map(_pair, overrides))
    from ottla import pipelines

    sys.exit(pipelines.validate(file, pipelines.Place(pairs)))


@pipeline.command("status")
@click.argument("files", nargs=-1, required=True, type=click.Path(exists=True, dir_okay=False, path_type=Path))
@_JOB_OVERRIDES
@_CHECKPOINT
def status_of_jobs(files: tuple[Path, ...], overrides: tuple[str, ...], checkpoint: Path | None) -> None:
    """Say how far jobs are, and how far behind."""
    pairs = dict(map(_pair, overrides))
    from ottla import pipelines

    sys.exit(pipelines.status(files, pipelines.Place(pairs, checkpoint)))


@pipeline.command("reset")
@_JOB
@click.option("--to", required=True, metavar="earliest|latest|TIME", help="Where it is to begin anew.")
@_JOB_OVERRIDES
@_CHECKPOINT
def reset_job(file: Path, to: str, overrides: tuple[str, ...], checkpoint: Path | None) -> None:
    """Move a job that does not run."""
    pairs = dict(map(_pair, overrides))
    from ottla import pipelines

    sys.exit(pipelines.reset(file, pipelines.Place(pairs, checkpoint), to))


@pipeline.command("serve")
@click.argument("directory", type=click.Path(file_okay=False, path_type=Path), metavar="DIR")
@click.option("--bootstrap-server", required=True, metavar="HOST:PORT", help="The brokers that keep what is said.")
@click.option("--listen", default="127.0.0.1:8083", show_default=True, help="Where HTTP is answered; port 0 is any.")
@click.option("--group-id", default="ottla-pipeline", show_default=True, help="Servers of one group share the jobs.")
@_MASTER
@_JARS
@_CONF
def serve_jobs(
    directory: Path,
    bootstrap_server: str,
    listen: str,
    group_id: str,
    master: str | None,
    jars: Path | None,
    conf: tuple[str, ...],
) -> None:
    """Run many jobs, those of DIR and those that come by Connect's REST interface, until a signal says to stop."""
    keys = dict(_pair(each, "--conf") for each in conf)
    from ottla import pipelines

    place = pipelines.Place(master=master, jars=jars, spark=keys)
    sys.exit(pipelines.serve(directory, bootstrap_server, place, listen=listen, group_id=group_id))


@main.group()
def metadata() -> None:
    """Take a cluster's topics and configs out of its store, or bring them into one.

    Which store, a broker's configuration says, as for `serve`: a ZooKeeper, or the one in its first log directory, of
    which no broker may be at work then.
    """


@metadata.command("export")
@click.argument("file", type=click.Path(dir_okay=False, path_type=Path))
@_PROPERTIES
@_OVERRIDES
@_ZOOKEEPER
def export_command(file: Path, properties: Path | None, overrides: tuple[str, ...], zookeeper: str | None) -> None:
    """Write a cluster's metadata into FILE."""
    pairs = _store_pairs(overrides, zookeeper)
    from ottla.metadata import export_metadata

    sys.exit(export_metadata(file, properties, pairs, os.environ))


@metadata.command("import")
@click.argument("source", type=click.Path(exists=True, path_type=Path), metavar="FILE|DIR")
@_PROPERTIES
@_OVERRIDES
@_ZOOKEEPER
@click.option("--overwrite", is_flag=True, help="Give up configs and replicas that differ. Ids are never given up.")
def import_command(
    source: Path, properties: Path | None, overrides: tuple[str, ...], zookeeper: str | None, overwrite: bool
) -> None:
    """Bring in what FILE says, or a log directory of Kafka's: in KRaft mode all, in ZooKeeper mode all but configs.

    A directory that is one of the configured log.dirs stands for all of them, and is taken over for good.
    """
    pairs = _store_pairs(overrides, zookeeper)
    from ottla.metadata import import_metadata

    sys.exit(import_metadata(source, properties, pairs, os.environ, overwrite=overwrite))


def _store_pairs(overrides: tuple[str, ...], zookeeper: str | None) -> dict[str, str]:
    return dict(map(_pair, overrides)) | ({} if zookeeper is None else {"zookeeper.connect": zookeeper})


def _pair(override: str, option: str = "--override") -> tuple[str, str]:
    name, equals, value = override.partition("=")
    if not equals or not name.strip():
        _refuse(f"{option} takes KEY=VALUE, not {override!r}")
    return name.strip(), value


def _level(text: str) -> tuple[str, int]:
    logger, _, level = text.rpartition("=")
    if level.strip().upper() not in LEVELS:
        _refuse(f"--log-level takes one of {', '.join(LEVELS)}, or LOGGER= and one of them, not {text!r}")
    return logger.strip(), LEVELS[level.strip().upper()]


def _refuse(reason: str) -> NoReturn:
    click.echo(f"ottla: {reason}", err=True)
    sys.exit(1)
