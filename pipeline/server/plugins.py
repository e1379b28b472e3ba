"""What Connect's clients see of a job's kind and keys: one plugin, of which each job is a connector.

Owns the forms that validation is told in. Which keys there are, and what may stand in them, is known by whoever builds
jobs. Counterparts in Kafka: PluginInfo, ConfigKeyInfo, ConfigValueInfo, ConfigInfos, AbstractHerder.
"""

import importlib.metadata
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final

JOB_CLASS: Final = "ottla.pipeline.Job"
CLASS_KEY: Final = "connector.class"

# Given a config and what to call it, all that is wrong: which key, and a text that names it.
Validate = Callable[[dict[str, str], str], Sequence[tuple[str, str]]]

# The keys that any job may have; sources, sinks and transforms have others of their own.
_KEYS: Final = (
    ("name", "STRING", True, None, "The name of the job."),
    (CLASS_KEY, "STRING", False, JOB_CLASS, "There is only one."),
    ("source.type", "STRING", True, None, "Where records come from."),
    ("sink.type", "STRING", True, None, "Where records go."),
    ("transforms", "LIST", False, "", "The names of what is done to each record, in order."),
    ("predicates", "LIST", False, "", "The names of the conditions that transforms may have."),
    ("sql", "STRING", False, None, "A query over the records."),
    ("errors.tolerance", "STRING", False, "none", "Whether bad records end the job (none) or not (all)."),
)


def version() -> str:
    """The version of this package."""
    return importlib.metadata.version("ottla")


def kind(config: Mapping[str, str]) -> str:
    """What Connect would call a job: a sink takes records out of topics, a source brings them in."""
    return "sink" if config.get("source.type", "").lower() == "topic" else "source"


def listed(others: Sequence[tuple[str, str]], *, connectors_only: bool) -> list[dict[str, str]]:
    """All plugins; `others` are the classes and types of those that are no connectors."""
    plugins = [(JOB_CLASS, "sink"), (JOB_CLASS, "source"), *([] if connectors_only else others)]
    return [{"class": name, "type": type_, "version": version()} for name, type_ in plugins]


def is_job(name: str) -> bool:
    """Whether this is the plugin that jobs are, under its whole name or without its package."""
    return name in (JOB_CLASS, JOB_CLASS.rpartition(".")[2])


def definitions() -> list[dict[str, Any]]:
    """The keys that any job may have, as ConfigKeyInfo."""
    return [_definition(*key, order) for order, key in enumerate(_KEYS, start=1)]


def _definition(
    name: str, type_: str, required: bool, default: str | None, documentation: str, order: int = -1
) -> dict[str, Any]:
    return {
        "name": name,
        "type": type_,
        "required": required,
        "default_value": default,
        "importance": "HIGH" if required else "MEDIUM",
        "documentation": documentation,
        "group": "Common" if order > 0 else None,
        "width": "MEDIUM",
        "display_name": name,
        "dependents": [],
        "order": order,
    }


def errors(config: Mapping[str, str], name: str, validate: Validate) -> list[tuple[str, str]]:
    """All that is wrong with a config."""
    found = []
    # Half a surrogate pair, which JSON can say, is no text.
    if not name or any(character < " " or "\ud800" <= character <= "\udfff" for character in name):
        found.append(("name", "String must be non-empty and may not have control characters"))
    if not is_job(config.get(CLASS_KEY, JOB_CLASS)):
        found.append((CLASS_KEY, f"Failed to find any class that is a connector and is named {config[CLASS_KEY]}"))
    return [*found, *validate({key: value for key, value in config.items() if key != CLASS_KEY}, name)]


def validated(config: Mapping[str, str], found: Sequence[tuple[str, str]]) -> dict[str, Any]:
    """What validation has found, as ConfigInfos."""
    known = {definition["name"]: definition for definition in definitions()}
    keys = list(dict.fromkeys([*known, *config, *(key for key, _ in found)]))
    configs = [
        {
            "definition": known.get(key) or _definition(key, "STRING", required=False, default=None, documentation=""),
            "value": {
                "name": key,
                "value": config.get(key, known.get(key, {}).get("default_value")),
                "recommended_values": [],
                "errors": [message for wrong, message in found if wrong == key],
                "visible": True,
            },
        }
        for key in keys
    ]
    return {"name": JOB_CLASS, "error_count": len(found), "groups": ["Common"], "configs": configs}


def refusal(found: Sequence[tuple[str, str]]) -> str:
    """What validation has found, as the message of an error."""
    return "\n".join(
        [
            f"Connector configuration is invalid and contains the following {len(found)} error(s):",
            *(message for _, message in found),
            "You can also find the above list of errors at the endpoint "
            "`/connector-plugins/{connectorType}/config/validate`",
        ]
    )
