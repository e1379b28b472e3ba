"""Runs a broker, or several, in this process: for the command line, and for the children of `Broker` and `Cluster`.

Owns two lines: on stdout when the broker serves, on stderr when it cannot. Must not know how the broker works.
Counterpart in Kafka: Kafka.scala, the main class.
"""

import logging
import sys
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from types import MappingProxyType

from ottla import loggers, native
from ottla.broker.config.broker_config import BrokerConfig
from ottla.broker.config.listeners import Address
from ottla.broker.loop.process import Server, serve
from ottla.broker.node import AddressInUse, Node
from ottla.log.manager import DuplicateLogError
from ottla.log.state.directory_failures import NoLogDirectoryError
from ottla.log.state.meta_properties import DirectoryInUse, InconsistentMetaPropertiesError
from ottla.wire.config_def import ConfigError, render
from ottla.zk.bootstrap import BrokerIdInUseError
from ottla.zk.store import StoreError
from ottla.zk.strict_json import ZnodeError

logger = logging.getLogger("kafka.Kafka$")
config_logger = logging.getLogger("kafka.server.KafkaConfig")

_REFUSALS = (
    ConfigError,
    AddressInUse,
    DirectoryInUse,
    InconsistentMetaPropertiesError,
    NoLogDirectoryError,
    DuplicateLogError,
    BrokerIdInUseError,
)


def run(
    properties: Path | None,
    overrides: Mapping[str, str],
    environ: Mapping[str, str],
    log_format: str = "text",
    levels: Mapping[str, int] = MappingProxyType({}),
    *,
    defaults: Mapping[str, str] = MappingProxyType({}),
    host: str | None = None,
    port: int | None = None,
) -> int:
    """Serve as one broker until SIGTERM or SIGINT; return the exit code of the process.

    `host` and `port` override every configuration; every configuration overrides `defaults`.
    """

    def configured() -> Callable[[], Server]:
        address = Address(host, port)
        config, warnings = BrokerConfig.load(properties, overrides, environ, defaults=defaults, address=address)
        log_config(config, warnings)
        return lambda: Node(config)

    return run_server(configured, log_format, levels)


def run_server(
    configured: Callable[[], Callable[[], Server]],
    log_format: str = "text",
    levels: Mapping[str, int] = MappingProxyType({}),
) -> int:
    """Call `configured`, then serve with the server that it returns until SIGTERM or SIGINT; return the exit code."""
    writer = loggers.set_up(sys.stderr.fileno(), log_format, levels)
    served: list[str] = []
    try:
        serve(configured(), ready=lambda bootstrap: served.append(announce(bootstrap)))
    except _REFUSALS as error:
        return refuse(str(error), writer)
    except (OSError, StoreError, ZnodeError) as error:
        # At the start the system or ZooKeeper refused something: its reason is the one line. Later it is a bug.
        if not served:
            return refuse(_reason(error), writer)
        logger.critical("the broker ends because of a bug", exc_info=error)
        return 1
    except Exception:
        logger.critical("the broker ends because of a bug", exc_info=True)
        return 1
    return 0


def _reason(error: Exception) -> str:
    if isinstance(error, OSError) and error.filename:
        return f"{error.filename}: {error.strerror}"
    return str(error)


def log_config(config: BrokerConfig, warnings: Iterable[str]) -> None:
    """Log the warnings, the keys that are set, the keys without effect, and the form of the hot path."""
    for warning in warnings:
        config_logger.warning("%s", warning)
    # log.dirs hides log.dir.
    unread = {"log.dir"} if "log.dirs" in config.texts else set()
    names = sorted(config.values.keys() & config.texts.keys() - unread)
    texts = {name: render(config.values[name]) for name in names}
    config_logger.info("configured: %s", ", ".join(f"{name}={text}" for name, text in texts.items()))
    if config.without_effect:
        config_logger.info("Configuration keys without effect in Ottla: %s", ", ".join(config.without_effect))
    plain = "in plain Python, slower; to compile it: pip install 'ottla[native]' && python -m ottla.build_native"
    form = "compiled" if native.is_used() else plain
    config_logger.info("the hot path runs %s", form)


def announce(bootstrap: str) -> str:
    """Print the line that names the bootstrap address; return it. The parent of this process waits for it."""
    line = f"ottla ready bootstrap={bootstrap}"
    sys.stdout.write(f"{line}\n")
    sys.stdout.flush()
    return line


def refuse(reason: str, writer: logging.Handler) -> int:
    """Print on stderr why no broker serves, after all log lines; return the exit code."""
    writer.flush()
    sys.stderr.write(f"ottla: {' '.join(reason.split())}\n")
    return 1
