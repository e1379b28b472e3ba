"""The command `ottla`: reads its arguments and calls a function of `commands`, `scripts` or `serving`.

Must not know the broker: each subcommand imports its heavy modules itself. Counterpart in Kafka: kafka-server-start.sh.
"""

import os
import sys
from pathlib import Path

import click

from ottla.commands.options import address, defaults_without_file, level, pair, settings
from ottla.loggers import FORMATS, LEVELS
from ottla.scripts.terminal.commands import Late, LateGroup

_PROPERTIES = click.argument(
    "properties", required=False, type=click.Path(path_type=Path), metavar="[SERVER.PROPERTIES]"
)
_OVERRIDES = click.option(
    "--override",
    "overrides",
    multiple=True,
    metavar="KEY=VALUE",
    help="Set one of Kafka's keys, whatever the file and the environment say. May be given several times.",
)
_DATA_OF_STORE = click.option(
    "--data",
    type=click.Path(file_okay=False, path_type=Path),
    metavar="DIR",
    help="Use the store in this log directory, whatever log.dirs says.",
)
_ZOOKEEPER = click.option(
    "--zookeeper", metavar="HOST:PORT[/PATH]", help="Use this ZooKeeper, whatever zookeeper.connect says."
)


def _script(name: str, text: str) -> Late:
    """Return the command `name` of the module `scripts/NAME.py`, imported at its first use."""
    module = name.replace("-", "_")
    return Late(f"ottla.scripts.{module}", module, text)


_SCRIPTS = {
    "api-versions": _script("api-versions", "List the requests that brokers understand, or where brokers differ."),
    "cluster": _script("cluster", "Show a cluster and its brokers, or run one on this machine."),
    "features": _script("features", "List, upgrade and downgrade the features of a cluster."),
    "groups": _script("groups", "List, describe, watch, reset and delete groups of consumers."),
    "acls": _script("acls", "List, add and remove access control lists: who may do what."),
    "apply": _script("apply", "Create and change topics as FILE describes them."),
    "client-metrics": _script("client-metrics", "List, describe, set and delete subscriptions to clients' metrics."),
    "configs": _script("configs", "Describe, change and compare configs of topics, brokers and groups."),
    "consume": _script("consume", "Print the records of topics."),
    "copy": _script("copy", "Copy a topic, also to another cluster."),
    "delete-records": _script("delete-records", "Delete the first records of partitions."),
    "diff": _script("diff", "Compare topics of two clusters, or of a cluster and a file."),
    "dump-log": _script("dump-log", "Print what files of a log directory hold."),
    "elect-leaders": _script("elect-leaders", "Elect leaders of partitions."),
    "install-shims": _script("install-shims", "Write kafka-topics.sh and its sisters to DIR."),
    "log-dirs": _script("log-dirs", "Describe the log directories of brokers."),
    "loggers": _script("loggers", "List and set the levels of a broker's loggers, while it runs."),
    "offsets": _script("offsets", "Print offsets of partitions: the first one, the next one, or that of a time."),
    "perf": _script("perf", "Measure throughput and latency of a topic."),
    "produce": _script("produce", "Write records to a topic."),
    "quotas": _script("quotas", "List, set and apply quotas of users, client ids and addresses."),
    "reassign": _script("reassign", "Move partitions between brokers, and replicas between log directories."),
    "tokens": _script("tokens", "List, create, renew and expire delegation tokens."),
    "transactions": _script("transactions", "List and describe transactions, find those that hang, and abort them."),
    "topics": _script("topics", "List, describe, create, alter, export and delete topics."),
    "users": _script("users", "List, add and delete the SCRAM credentials of users."),
    "verifiable-consumer": _script("verifiable-consumer", "Read a topic and print what is read, for tests."),
    "verifiable-producer": _script("verifiable-producer", "Write numbers and print which arrive, for tests."),
}


@click.group(
    cls=LateGroup,
    late=_SCRIPTS,
    heading="Commands for any Kafka cluster",
    context_settings={"help_option_names": ["-h", "--help"]},
)
@click.version_option(package_name="ottla", message="%(prog)s %(version)s")
def main() -> None:
    """Run Ottla, a Kafka broker in Python, and what belongs to it."""


@main.command()
@_PROPERTIES
@click.option(
    "--port",
    type=click.IntRange(0, 65535),
    metavar="PORT",
    help="Listen on this port, whatever listeners says; 0 takes a free one. Without a file the default is 9092.",
)
@click.option(
    "--listen",
    metavar="HOST[:PORT]",
    help="Listen on this address, whatever listeners says. 0.0.0.0 means every address; clients then get the name of "
    "this machine. Without a file the default is localhost.",
)
@click.option(
    "--data",
    type=click.Path(file_okay=False, path_type=Path),
    metavar="DIR",
    help="Keep the data in this directory, whatever log.dirs says.",
)
@_OVERRIDES
@click.option(
    "--log-format",
    type=click.Choice(list(FORMATS)),
    default="text",
    show_default=True,
    help="Write lines on stderr in Kafka's format, or as one JSON object each.",
)
@click.option(
    "--log-level",
    "levels",
    multiple=True,
    metavar="[LOGGER=]LEVEL",
    help=f"Leave out lines below this level: {', '.join(LEVELS)}. With a logger's name, leave out lines of this logger "
    "alone. The default is INFO. May be given several times.",
)
def serve(
    properties: Path | None,
    port: int | None,
    listen: str | None,
    data: Path | None,
    overrides: tuple[str, ...],
    log_format: str,
    levels: tuple[str, ...],
) -> None:
    """Serve Kafka clients until SIGTERM or SIGINT.

    SERVER.PROPERTIES is a broker's configuration in Kafka's format, with Kafka's keys and Kafka's defaults. Without a
    file the broker serves this machine alone: it listens on localhost:9092 and keeps its data in $XDG_DATA_HOME/ottla,
    which is ~/.local/share/ottla unless set.

    If a key is set more than once, the first of these counts: --port, --listen and --data, then --override, then
    KAFKA_* environment variables as Kafka's container image maps them, then the file.
    """
    pairs = settings(overrides, data)
    host, port = address(listen, port)
    by_logger = dict(level(each) for each in levels)
    from ottla.serving import run

    defaults = defaults_without_file(os.environ) if properties is None else {}
    sys.exit(run(properties, pairs, os.environ, log_format, by_logger, defaults=defaults, host=host, port=port))


@main.command()
@click.argument("shell", type=click.Choice(["bash", "zsh", "fish"]))
def completion(shell: str) -> None:
    """Print a completion script for a shell.

    With it the shell completes the commands, options and files of ottla.

    \b
    For bash, add this to ~/.bashrc:  eval "$(ottla completion bash)"
    For zsh, add this to ~/.zshrc:    eval "$(ottla completion zsh)"
    For fish, run once:               ottla completion fish > ~/.config/fish/completions/ottla.fish
    """
    from click.shell_completion import get_completion_class

    kind = get_completion_class(shell)
    assert kind is not None
    click.echo(kind(main, {}, "ottla", "_OTTLA_COMPLETE").source())


@main.command()
@click.argument(
    "directories",
    nargs=-1,
    required=True,
    type=click.Path(exists=True, file_okay=False, path_type=Path),
    metavar="DIR...",
)
@click.option(
    "--repair",
    is_flag=True,
    help="Write indexes, snapshots and epochs again from the batches, and cut off damage that was never flushed.",
)
def verify(directories: tuple[Path, ...], repair: bool) -> None:
    """Check the data of a broker that does not run.

    Each DIR is a log directory or the directory of a partition, of Ottla or of Kafka. Each defect is one line. The exit
    code is 1 if there is a defect, otherwise 0.
    """
    from ottla.commands import verifying

    sys.exit(verifying.run(directories, repair))


_JOB = click.argument("file", type=click.Path(exists=True, dir_okay=False, path_type=Path), metavar="JOB")
_CHECKPOINT = click.option(
    "--checkpoint",
    type=click.Path(file_okay=False, path_type=Path),
    metavar="DIR",
    help="Keep the position of the job in this directory. The default is .checkpoints/NAME beside its file.",
)
_MASTER = click.option(
    "--master", metavar="URL", help="Run on this Spark cluster. The default is a Spark of its own on this machine."
)
_JARS = click.option(
    "--jars",
    type=click.Path(exists=True, file_okay=False, path_type=Path),
    metavar="DIR",
    help="Take Spark's jars from this directory. Without this option mvn fetches them, once, or Spark itself does.",
)
_CONF = click.option(
    "--conf",
    "conf",
    multiple=True,
    metavar="KEY=VALUE",
    help="Set one of Spark's keys. May be given several times.",
)
_JOB_OVERRIDES = click.option(
    "--override",
    "overrides",
    multiple=True,
    metavar="KEY=VALUE",
    help="Set one of the job's keys, whatever its file says. May be given several times.",
)


@main.group()
def pipeline() -> None:
    """Run jobs on Spark, between topics, files and databases.

    A file describes a job, in TOML or as properties. Running one takes Java and `pip install 'ottla[spark]'`.
    """


@pipeline.command("example")
@click.argument("name", required=False, metavar="[NAME]")
def write_example(name: str | None) -> None:
    """Write an example job, and the files it reads, to ./examples. Without NAME, list the examples."""
    from ottla.commands.example_jobs import write

    sys.exit(write(name, Path()))


@pipeline.command("run")
@_JOB
@click.option("--once", is_flag=True, help="End when all records that exist now are processed.")
@_JOB_OVERRIDES
@click.option("--bootstrap-server", metavar="HOST:PORT", help="Use these brokers for a job whose file names none.")
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
    """Run a job until SIGTERM or SIGINT.

    JOB is the file that describes it.
    """
    keys, pairs = dict(pair(each, "--conf") for each in conf), dict(map(pair, overrides))
    from ottla.commands import pipelines
    from ottla.commands.zookeeper_process import cache_folder

    place = pipelines.Place(pairs, checkpoint, master, jars, keys, cache_folder(os.environ), bootstrap_server)
    sys.exit(pipelines.run(file, place, once))


@pipeline.command("validate")
@_JOB
@_JOB_OVERRIDES
def validate_job(file: Path, overrides: tuple[str, ...]) -> None:
    """Check the file JOB, and say what is wrong with it."""
    pairs = dict(map(pair, overrides))
    from ottla.commands import pipelines

    sys.exit(pipelines.validate(file, pipelines.Place(pairs)))


@pipeline.command("status")
@click.argument(
    "files",
    nargs=-1,
    required=True,
    type=click.Path(exists=True, dir_okay=False, path_type=Path),
    metavar="JOB...",
)
@_JOB_OVERRIDES
@_CHECKPOINT
def status_of_jobs(files: tuple[Path, ...], overrides: tuple[str, ...], checkpoint: Path | None) -> None:
    """Show the progress and the lag of jobs.

    A line for each JOB has the number of batches that are done, and of records in its topics that are not read.
    """
    pairs = dict(map(pair, overrides))
    from ottla.commands import pipelines

    sys.exit(pipelines.status(files, pipelines.Place(pairs, checkpoint)))


@pipeline.command("reset")
@_JOB
@click.option(
    "--to",
    required=True,
    metavar="earliest|latest|TIME",
    help="Begin with the earliest records, with new records, or with the records of a time such as "
    "2026-01-31T12:00:00Z.",
)
@_JOB_OVERRIDES
@_CHECKPOINT
def reset_job(file: Path, to: str, overrides: tuple[str, ...], checkpoint: Path | None) -> None:
    """Move a job that does not run.

    The next run of JOB begins at the position that --to names.
    """
    pairs = dict(map(pair, overrides))
    from ottla.commands import pipelines

    sys.exit(pipelines.reset(file, pipelines.Place(pairs, checkpoint), to))


@pipeline.command("serve")
@click.argument("directory", type=click.Path(file_okay=False, path_type=Path), metavar="DIR")
@click.option(
    "--bootstrap-server",
    required=True,
    metavar="HOST:PORT",
    help="Keep jobs and their state in topics of these brokers.",
)
@click.option(
    "--listen",
    default="127.0.0.1:8083",
    show_default=True,
    metavar="HOST:PORT",
    help="Answer HTTP on this address; port 0 takes a free one.",
)
@click.option(
    "--group-id",
    default="ottla-pipeline",
    show_default=True,
    metavar="NAME",
    help="Share the jobs with the other servers of this group.",
)
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
    """Run many jobs, with Connect's REST interface.

    The server runs the jobs of the files in DIR, and the jobs that clients create, until SIGTERM or SIGINT.
    """
    keys = dict(pair(each, "--conf") for each in conf)
    from ottla.commands import pipelines

    place = pipelines.Place(master=master, jars=jars, spark=keys)
    sys.exit(pipelines.serve(directory, bootstrap_server, place, listen=listen, group_id=group_id))


@main.group()
def metadata() -> None:
    """Export or import the metadata of a cluster.

    Topics, configs and ids are in a ZooKeeper, or in the first log directory of a broker that does not run. The
    broker's configuration says where, as for `ottla serve`.
    """


@metadata.command("export")
@click.argument("file", type=click.Path(dir_okay=False, path_type=Path), metavar="FILE")
@_PROPERTIES
@_DATA_OF_STORE
@_OVERRIDES
@_ZOOKEEPER
def export_command(
    file: Path, properties: Path | None, data: Path | None, overrides: tuple[str, ...], zookeeper: str | None
) -> None:
    """Write the metadata of a cluster into FILE.

    Without a configuration it is the cluster of `ottla serve` without a file.
    """
    pairs = settings(overrides, data, zookeeper)
    from ottla.commands.metadata import export_metadata

    defaults = defaults_without_file(os.environ) if properties is None else {}
    sys.exit(export_metadata(file, properties, pairs, os.environ, defaults=defaults))


@metadata.command("import")
@click.argument("source", type=click.Path(exists=True, path_type=Path), metavar="FILE|DIR")
@_PROPERTIES
@_DATA_OF_STORE
@_OVERRIDES
@_ZOOKEEPER
@click.option(
    "--overwrite", is_flag=True, help="Replace configs and replicas that differ. Ids of topics are never replaced."
)
def import_command(
    source: Path,
    properties: Path | None,
    data: Path | None,
    overrides: tuple[str, ...],
    zookeeper: str | None,
    overwrite: bool,
) -> None:
    """Import the metadata of a cluster.

    FILE is the output of `ottla metadata export`; DIR is a log directory of a Kafka broker. In KRaft mode DIR has all
    metadata, in ZooKeeper mode all but configs. A DIR that is one of the target's log.dirs stands for all of them, and
    belongs to Ottla from then on. Name the target by --data, --zookeeper, a properties file, or the keys log.dirs or
    zookeeper.connect.
    """
    pairs = settings(overrides, data, zookeeper)
    from ottla.commands.metadata import import_metadata

    sys.exit(import_metadata(source, properties, pairs, os.environ, overwrite=overwrite))
