"""Properties of clients from a tool's flags: files, `key=value` arguments, and flags that stand for a key.

Counterpart: CommandLineUtils.parseKeyValueArgs and maybeMergeOptions.
"""

from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Final

from ottla.client.config import ClientConfig, read_properties
from ottla.scripts.kafka.face import JavaError
from ottla.scripts.kafka.flags import Parsed
from ottla.wire.config_def import ConfigError

_CONFIG_EXCEPTION: Final = "org.apache.kafka.common.config.ConfigException"


def key_values(arguments: Iterable[str]) -> dict[str, str]:
    """Return `key=value` arguments; a key without value has an empty one."""
    return {key: value for key, _, value in (each.partition("=") for each in arguments)}


def properties_of(path: str | None) -> dict[str, str]:
    """Return the properties in a file. JavaError if there is none."""
    if path is None:
        return {}
    if not Path(path).exists():
        raise JavaError("java.nio.file.NoSuchFileException", path)
    try:
        return read_properties(Path(path))
    except ConfigError as error:
        raise JavaError("java.io.IOException", str(error)) from None


def merge_flags(properties: dict[str, str], parsed: Parsed, keys: Mapping[str, str]) -> None:
    """Set keys by given flags, and unset keys by the defaults of flags."""
    for key, name in keys.items():
        if parsed.has(name) or key not in properties:
            properties[key] = str(parsed.value(name))


def client_config(properties: Mapping[str, str]) -> ClientConfig:
    """Return the parsed properties. JavaError for an invalid one."""
    try:
        return ClientConfig(properties)
    except ConfigError as error:
        raise config_exception(error) from None


def config_exception(error: ConfigError) -> JavaError:
    """Return the exception for invalid properties."""
    return JavaError(_CONFIG_EXCEPTION, str(error))
