"""Named clusters: one TOML file with a table of client properties for each.

```toml
default = "staging"

[staging]
"bootstrap.servers" = "kafka-1.staging:9093,kafka-2.staging:9093"
"security.protocol" = "SASL_SSL"
"sasl.mechanism" = "SCRAM-SHA-512"
username = "alice"
password = { env = "STAGING_PASSWORD" }   # or { file = "~/.staging" }, or { prompt = true }
```

`username` and `password` stand for the login module of `sasl.jaas.config`. The file is
`$XDG_CONFIG_HOME/ottla/profiles.toml`.
"""

import os
import tomllib
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final

from ottla.client.config import resolve_references
from ottla.wire.config_def import ConfigError, nearest

_PLAIN: Final = "org.apache.kafka.common.security.plain.PlainLoginModule"
_SCRAM: Final = "org.apache.kafka.common.security.scram.ScramLoginModule"


def profiles_file(environment: Mapping[str, str]) -> Path:
    """Return the path of profiles.toml."""
    return _home(environment, "XDG_CONFIG_HOME", ".config") / "ottla" / "profiles.toml"


def state_folder(environment: Mapping[str, str]) -> Path:
    """Return the folder for files that must be kept."""
    return _home(environment, "XDG_STATE_HOME", ".local/state") / "ottla"


def cache_folder(environment: Mapping[str, str]) -> Path:
    """Return the folder for files that can be made again."""
    return _home(environment, "XDG_CACHE_HOME", ".cache") / "ottla"


def _home(environment: Mapping[str, str], variable: str, default: str) -> Path:
    return Path(environment[variable]) if environment.get(variable) else Path.home() / default


def read_profile(name: str | None, environment: Mapping[str, str]) -> dict[str, str]:
    """Return the client properties of a profile; without a name those of the default profile, if there is one.

    ConfigError if the file cannot be read or has no such profile.
    """
    path = profiles_file(environment)
    try:
        content = tomllib.loads(path.read_text("utf-8"))
    except FileNotFoundError:
        if name is None:
            return {}
        raise ConfigError(f"there is no profile {name}: {path} does not exist") from None
    except (OSError, ValueError) as error:
        raise ConfigError(f"{path}: {error}") from error
    chosen = name or environment.get("OTTLA_PROFILE") or content.get("default")
    if chosen is None:
        return {}
    table = content.get(chosen)
    if not isinstance(table, dict):
        known = [key for key, value in content.items() if isinstance(value, dict)]
        guess = nearest(str(chosen), known)
        meant = f"; did you mean {guess}?" if guess else f"; there are {', '.join(known) or 'none'}"
        raise ConfigError(f"{path} has no profile {chosen}{meant}")
    return _properties(str(chosen), table)


def _properties(profile: str, table: Mapping[str, Any]) -> dict[str, str]:
    found = {}
    for key, value in table.items():
        if isinstance(value, dict):
            found[key] = _secret(f"{profile}: {key}", value)
        elif isinstance(value, list):
            found[key] = ",".join(map(str, value))
        else:
            text = str(value).lower() if isinstance(value, bool) else str(value)
            found[key] = resolve_references(f"{profile}: {key}", text)
    return _with_login_module(profile, found)


def _with_login_module(profile: str, found: dict[str, str]) -> dict[str, str]:
    """Replace `username` and `password` by their login module."""
    user, password = found.pop("username", None), found.pop("password", None)
    if user is None and password is None:
        return found
    if user is None or password is None:
        raise ConfigError(f"{profile}: username and password need each other")
    module = _PLAIN if found.get("sasl.mechanism") == "PLAIN" else _SCRAM
    quoted = [f'"{_escaped(each)}"' for each in (user, password)]
    found["sasl.jaas.config"] = f"{module} required username={quoted[0]} password={quoted[1]};"
    return found


def _escaped(text: str) -> str:
    return text.replace("\\", "\\\\").replace('"', '\\"')


def _secret(key: str, source: Mapping[str, Any]) -> str:
    match source:
        case {"env": str(name)}:
            if name not in os.environ:
                raise ConfigError(f"{key}: the environment has no {name}")
            return os.environ[name]
        case {"file": str(path)}:
            try:
                return Path(path).expanduser().read_text("utf-8").strip()
            except (OSError, ValueError) as error:
                raise ConfigError(f"{key}: {error}") from error
        case {"prompt": True}:
            import click

            secret: str = click.prompt(key, hide_input=True, err=True)
            return secret
        case _:
            raise ConfigError(f"{key}: use {{env = NAME}}, {{file = PATH}} or {{prompt = true}} for a secret")
