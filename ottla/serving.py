"""Runs a broker in this process, for the command line and for `Broker`'s child alike.

Owns what is said on the way: one line on stdout when it serves, one line on stderr why it cannot. Must not know how the
broker works. Counterpart: Kafka.scala, the main class.
"""

import logging
import sys
from collections.abc import Mapping
from pathlib import Path

from ottla.broker.config import BrokerConfig
from ottla.broker.node import AddressInUse
from ottla.broker.process import serve
from ottla.log.meta_properties import DirectoryInUse
from ottla.wire.config_def import ConfigError
from ottla.wire.record_batch import SCAN_IS_COMPILED

logger = logging.getLogger("ottla")


def run(properties: Path | None, overrides: Mapping[str, str], environ: Mapping[str, str]) -> int:
    """Serve until a signal says to stop; return the exit code of the process."""
    logging.basicConfig(
        stream=sys.stderr, level=logging.INFO, format="%(asctime)s.%(msecs)03d %(levelname)s %(name)s: %(message)s",
        datefmt="%Y-%m-%dT%H:%M:%S",
    )  # fmt: skip
    served: list[str] = []
    try:
        config, warnings = BrokerConfig.load(properties, overrides, environ)
        for warning in warnings:
            logger.warning("%s", warning)
        if config.without_effect:
            logger.info("without effect in Ottla: %s", ", ".join(config.without_effect))
        scan = "compiled" if SCAN_IS_COMPILED else "plain Python, slower (`make setup` compiles it where a compiler is)"
        logger.info("record scan: %s", scan)
        serve(config, ready=lambda bootstrap: served.append(announce(bootstrap)))
    except (ConfigError, AddressInUse, DirectoryInUse) as error:
        return refuse(str(error))
    except OSError as error:
        # A file or socket that the system refuses at the start: its reason is the one clear line. Later it is a bug.
        if served:
            raise
        return refuse(f"{error.filename}: {error.strerror}" if error.filename else str(error))
    return 0


def announce(bootstrap: str) -> str:
    """Tell whoever started this process where clients may connect; return the line."""
    line = f"ottla ready bootstrap={bootstrap}"
    sys.stdout.write(f"{line}\n")
    sys.stdout.flush()
    return line


def refuse(reason: str) -> int:
    """Say why no broker serves here."""
    sys.stderr.write(f"ottla: {' '.join(reason.split())}\n")
    return 1
