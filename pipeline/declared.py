"""Parts of a job whose keys are declared: reading them and listing them derive from one declaration a key.

Owns how a declared key is read from Settings, how a part of a job finds the class that it names, and where a job names
such parts. Must not know any key. Counterparts in Kafka: ConfigDef, SimpleConfig, ConnectorConfig.EnrichablePlugin.
"""

import inspect
from collections.abc import Mapping
from typing import Any, ClassVar, Final, TypeVar

from ottla.pipeline.settings import JobError, Settings
from ottla.wire.config_def import Check, ConfigDef, ConfigKey, ConfigType, OneOf, nearest

# The default of a key that has none.
REQUIRED: Final[Any] = object()
NON_EMPTY_LIST: Final = Check("non-empty list", lambda value: None if value else "names nothing")
NON_EMPTY_TEXT: Final = Check("non-empty text", lambda value: None if value or value is None else "is empty")


class Declared:
    """A part of a job: its keys are attributes of its class, and have the values that were read from its instances.

    The first paragraph of a class's docstring is what users are told that it does, the others where it differs from
    Connect's class of that name.
    """

    CONFIG: ClassVar[ConfigDef] = ConfigDef(())

    def __init_subclass__(cls) -> None:
        super().__init_subclass__()
        own = [key for key in vars(cls).values() if isinstance(key, ConfigKey)]
        cls.CONFIG = ConfigDef([*cls.CONFIG.values(), *own])

    def __init__(self, settings: Settings) -> None:
        self.settings = settings
        self.values = {name: read_key(settings, key) for name, key in self.CONFIG.items()}
        self.prepare()

    def prepare(self) -> None:
        """Look at the values together: JobError where they cannot stand."""

    @classmethod
    def documentation(cls) -> tuple[str, ...]:
        """Return what it does, then its differences, a paragraph each."""
        return tuple(paragraph.replace("\n", " ") for paragraph in (inspect.getdoc(cls) or "").split("\n\n"))


D = TypeVar("D", bound=Declared)


def read_key(settings: Settings, key: ConfigKey[Any]) -> Any:
    """Read and check the value of a declared key."""
    default = None if key.default is REQUIRED else key.default
    value: Any
    if key.type is ConfigType.LIST:
        value = tuple(settings.texts(key.name, default))
    elif key.type is ConfigType.BOOLEAN:
        value = settings.truth(key.name, default=default)
    elif key.default is None and settings.optional(key.name) is None:
        value = None
    elif key.type is ConfigType.INT:
        value = settings.integer(key.name, default)
    elif isinstance(key.validator, OneOf):
        return settings.choice(key.name, key.validator.allowed, default)
    else:
        value = settings.text(key.name, default).strip()
    fault = key.validator.fault(value) if key.validator else None
    if fault:
        raise settings.wrong(key.name, fault)
    return value


def is_required(key: ConfigKey[Any]) -> bool:
    """Tell whether a key has to be there."""
    return key.default is REQUIRED


def named_parts(job: Settings, key: str) -> dict[str, Settings]:
    """Find the parts that a job names in `key`, as in Connect, or that are tables of TOML in a table of that name."""
    try:
        names = job.texts(key, ())
    except JobError:
        tables = job.part(key)
        names = tables.keys()
        return {name: tables.part(name) for name in names}
    for name in names:
        if names.count(name) > 1:
            raise job.wrong(key, f"names {name} twice")
    return {name: job.part(f"{key}.{name}") for name in names}


def class_of(settings: Settings, classes: Mapping[str, type[D]], package: str) -> type[D]:
    """Return the class that a part's `type` names, by short name or with Connect's package before it."""
    name = settings.text("type").strip().removeprefix(f"{package}.")
    if name in classes:
        return classes[name]
    if f"{name}$Value" in classes:
        raise settings.wrong("type", f"is to be {name}$Key or {name}$Value")
    near = nearest(name, classes)
    raise settings.wrong("type", f"is unknown: {name}" + (f"; did you mean {near}?" if near else ""))
