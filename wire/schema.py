"""The language in which messages are declared, and the slow reference derived from a declaration.

A message is a plain class with `__slots__`; its annotations carry wire type and versions and are the only declaration.
Everything costly (resolving annotations, the constructor, the codec) happens at first use, so that importing a message
costs little more than its class statement. Must not know a single message, nor a socket. Counterpart in Kafka:
org.apache.kafka.message.{MessageSpec, StructSpec, FieldSpec}.

Modules that declare messages must not import `annotations` from `__future__`: annotations are read as objects.
"""

import types
from collections.abc import Callable, Sequence
from functools import partial
from typing import TYPE_CHECKING, Annotated, Any, ClassVar, Self, Union, dataclass_transform, get_args, get_origin

from ottla.wire.types import EncodeError, Primitive, VersionRange

if TYPE_CHECKING:
    from ottla.wire.api_keys import ApiKey

__all__ = ["DEFAULT", "ArrayOf", "EncodeError", "Field", "Message", "Request", "Response", "Struct", "StructOf", "V"]

# As a field's default: its struct with every field at its own default. All share one instance; never change it.
DEFAULT: Any = object()
_REQUIRED: Any = object()
_ALL = VersionRange.parse("0+")
_NONE = VersionRange.parse("none")


class V:
    """A field's annotation beside its type. Versions are text until `fields` resolves them.

    `versions`: versions that have the field. `nullable`: versions in which it may be null. `tag`: its number as a
    tagged field. `flexible`: versions in which it is compact, if these are not the message's. `kafka_name`: its name in
    Kafka, if that is not ours in CamelCase.
    """

    __slots__ = ("flexible", "kafka_name", "nullable", "tag", "versions")

    def __init__(
        self,
        versions: str = "0+",
        *,
        nullable: str = "none",
        tag: int | None = None,
        flexible: str | None = None,
        kafka_name: str | None = None,
    ) -> None:
        self.versions = versions
        self.nullable = nullable
        self.tag = tag
        self.flexible = flexible
        self.kafka_name = kafka_name


class ArrayOf:
    """The wire type of an array."""

    __slots__ = ("element",)

    def __init__(self, element: "Primitive | StructOf") -> None:
        self.element = element

    @property
    def kafka_name(self) -> str:
        """The type as Kafka's specifications write it."""
        return f"[]{self.element.kafka_name}"


class StructOf:
    """The wire type of a nested struct."""

    __slots__ = ("struct",)

    def __init__(self, struct: "type[Struct]") -> None:
        self.struct = struct

    @property
    def kafka_name(self) -> str:
        """The type as Kafka's specifications write it."""
        return self.struct.kafka_name


WireType = Primitive | ArrayOf | StructOf


class Field:
    """One field of a declaration, resolved."""

    __slots__ = (
        "default",
        "flexible",
        "kafka_name",
        "name",
        "nullable",
        "required",
        "tag",
        "type",
        "versions",
    )

    def __init__(self, name: str, wire_type: WireType, v: V, default: Any) -> None:
        self.name = name
        self.type = wire_type
        self.kafka_name = v.kafka_name or "".join(word[:1].upper() + word[1:] for word in name.split("_"))
        self.versions = VersionRange.parse(v.versions)
        self.nullable = VersionRange.parse(v.nullable)
        self.tag = v.tag
        self.flexible = None if v.flexible is None else VersionRange.parse(v.flexible)
        self.required = default is _REQUIRED
        self.default = _zero(wire_type) if default is _REQUIRED or default is DEFAULT else default

    def is_tagged(self, version: int) -> bool:
        """Return whether the field is in the tagged section of `version`."""
        return self.tag is not None and version in self.versions

    def is_flexible(self, version: int, message: "type[Message]") -> bool:
        """Return whether the field is written in the compact form in `version` of `message`."""
        return version in (message.flexible if self.flexible is None else self.flexible)


def _zero(wire_type: WireType) -> Any:
    if isinstance(wire_type, Primitive):
        return wire_type.zero
    return () if isinstance(wire_type, ArrayOf) else default_instance(wire_type.struct)


def _wire_type(annotation: Any) -> WireType:
    for extra in getattr(annotation, "__metadata__", ()):
        if isinstance(extra, Primitive):
            return extra
    if get_origin(annotation) is Sequence:
        element = _wire_type(get_args(annotation)[0])
        if not isinstance(element, ArrayOf):
            return ArrayOf(element)
    if isinstance(annotation, type) and issubclass(annotation, Struct):
        return StructOf(annotation)
    raise TypeError(f"{annotation!r} is not a type of the protocol")


def _resolve(name: str, annotation: Any, default: Any) -> Field:
    v = V()
    if get_origin(annotation) is Annotated:
        v = next((extra for extra in annotation.__metadata__ if isinstance(extra, V)), v)
        if not any(isinstance(extra, Primitive) for extra in annotation.__metadata__):
            annotation = annotation.__origin__
    optional = get_origin(annotation) in (Union, types.UnionType)
    if optional:
        annotation = next(arg for arg in get_args(annotation) if arg is not type(None))
    wire_type = _wire_type(annotation)
    # The alias Records includes None.
    if optional != (v.nullable != "none") and wire_type.kafka_name != "records":
        raise TypeError(f"{name}: `| None` and `nullable=` belong together")
    return Field(name, wire_type, v, default)


@dataclass_transform(kw_only_default=True, eq_default=True)
class MessageType(type):
    """Turns a declaration into a class with `__slots__`; defaults move to `_defaults`, because slots exclude them."""

    def __new__(
        mcs,
        name: str,
        bases: tuple[type, ...],
        namespace: dict[str, Any],
        kafka_name: str | None = None,
        **keywords: Any,
    ) -> "MessageType":
        if "__slots__" not in namespace:
            annotations = namespace.setdefault("__annotations__", {})
            namespace["__slots__"] = tuple(annotations)
            namespace["_defaults"] = {field: namespace.pop(field, _REQUIRED) for field in annotations}
            namespace["_fields"] = namespace["_default_instance"] = None
            namespace["kafka_name"] = kafka_name or name
        return super().__new__(mcs, name, bases, namespace, **keywords)

    def __init__(cls, name: str, bases: tuple[type, ...], namespace: dict[str, Any], **keywords: Any) -> None:
        super().__init__(name, bases, namespace)


class Struct(metaclass=MessageType):
    """A struct in messages. Constructed by keywords; equal if all fields are equal."""

    __slots__ = ()
    __hash__ = None  # type: ignore[assignment]
    kafka_name: ClassVar[str] = ""
    _defaults: ClassVar[dict[str, Any]] = {}
    _fields: ClassVar[tuple[Field, ...] | None] = None
    _default_instance: ClassVar["Struct | None"] = None

    def __init__(self, **values: Any) -> None:
        cls = type(self)
        if not values and not any(default is _REQUIRED or default is DEFAULT for default in cls._defaults.values()):
            # Declarations use instances without values as defaults, and imports must not compile constructors.
            for field, default in cls._defaults.items():
                setattr(self, field, default)
            return
        cls.__init__ = _constructor(cls)  # type: ignore[method-assign]
        self.__init__(**values)  # type: ignore[misc]

    def __eq__(self, other: object) -> bool:
        if type(other) is not type(self):
            return NotImplemented
        return all(same_value(getattr(self, name), getattr(other, name)) for name in self._defaults)

    def __repr__(self) -> str:
        values = ", ".join(f"{name}={_show(getattr(self, name))}" for name in self._defaults)
        return f"{type(self).__name__}({values})"


def same_value(one: Any, other: Any) -> bool:
    """Return whether two values of a field are equal; a list may equal a tuple."""
    if isinstance(one, list | tuple) and isinstance(other, list | tuple):
        return list(one) == list(other)
    return bool(one == other)


def _show(value: Any) -> str:
    return f"<{len(value)} bytes>" if isinstance(value, bytes | bytearray | memoryview) else repr(value)


class Message(Struct):
    """Top-level data with versions of its own: a request, a response, a header, or a record's key or value."""

    __slots__ = ()
    versions: ClassVar[VersionRange] = _ALL
    flexible: ClassVar[VersionRange] = _NONE

    def __init_subclass__(
        cls, *, versions: str | None = None, flexible: str | None = None, api_key: "ApiKey | None" = None
    ) -> None:
        if versions is not None:
            cls.versions = VersionRange.parse(versions)
        if flexible is not None:
            cls.flexible = VersionRange.parse(flexible)
        if api_key is not None:
            cls.api_key = api_key  # type: ignore[attr-defined]

    def encode(self, version: int) -> bytes:
        """Return the wire form of this message in `version`."""
        from ottla.wire.compiled.compiler import encoder

        chunks: list[bytes] = []
        encoder(type(self), version)(self, chunks)
        return b"".join(chunks)

    @classmethod
    def decode(cls, data: bytes | bytearray | memoryview, version: int) -> Self:
        """Return the message at the start of `data` in `version`. DecodeError: there is none."""
        from ottla.wire.compiled.compiler import decoder

        message: Self = decoder(cls, version)(memoryview(data), 0)[0]
        return message


class Request(Message):
    """A request of a client or of another broker."""

    __slots__ = ()
    api_key: ClassVar["ApiKey"]


class Response(Message):
    """The response to a request."""

    __slots__ = ()
    api_key: ClassVar["ApiKey"]


def fields(cls: type[Struct]) -> tuple[Field, ...]:
    """Return the fields of a declaration in their order."""
    resolved = cls._fields
    if resolved is None:
        resolved = cls._fields = tuple(
            _resolve(name, annotation, cls._defaults[name]) for name, annotation in cls.__annotations__.items()
        )
    return resolved


def default_instance(cls: type[Struct]) -> Struct:
    """Return the shared struct with every field at its default, required ones at zero; never change it."""
    if cls._default_instance is None:
        instance = cls.__new__(cls)
        for field in fields(cls):
            setattr(instance, field.name, field.default)
        cls._default_instance = instance
    return cls._default_instance


def _constructor(cls: type[Struct]) -> Callable[..., None]:
    """Return a keyword-only `__init__`, as of a dataclass."""
    resolved = fields(cls)
    parameters = [f.name if f.required else f"{f.name}=_{f.name}" for f in resolved]
    lines = [f"def __init__(self, {', '.join(['*', *parameters] if parameters else [])}):"]
    lines += [f"    self.{f.name} = {f.name}" for f in resolved] or ["    pass"]
    scope = {f"_{f.name}": f.default for f in resolved}
    exec("\n".join(lines), scope)
    constructor: Callable[..., None] = scope["__init__"]
    constructor.__qualname__ = f"{cls.__qualname__}.__init__"
    return constructor


def construct_schema(message: type[Message], version: int) -> Any:
    """The slow reference: a `construct.Construct` that parses to, and builds from, objects of `message`."""
    from ottla.wire import primitives

    def of_type(wire_type: WireType, nullable: bool, compact: bool) -> Any:
        if isinstance(wire_type, StructOf):
            return of_struct(wire_type.struct)
        if isinstance(wire_type, ArrayOf):
            return primitives.array(of_type(wire_type.element, False, compact), nullable, compact)
        return primitives.primitive(wire_type.kafka_name, nullable, compact)

    def of_field(field: Field) -> Any:
        tagged = field.is_tagged(version)
        nullable = version in field.nullable
        if isinstance(field.type, StructOf) and nullable:
            return primitives.nullable_struct(of_struct(field.type.struct), tagged)
        return of_type(field.type, nullable, tagged or field.is_flexible(version, message))

    def of_struct(cls: type[Struct]) -> Any:
        present = [field for field in fields(cls) if version in field.versions]
        members = [(field.name, of_field(field)) for field in present if not field.is_tagged(version)]
        if version in message.flexible:
            known = {
                field.tag: (field.name, of_field(field), partial(same_value, field.default))
                for field in present
                if field.tag is not None and field.is_tagged(version)
            }
            members.append(("_tagged", primitives.TaggedFields(known)))
        defaults = {field.name: field.default for field in fields(cls)}
        return primitives.Instance(cls, primitives.sequence(members), defaults)

    return of_struct(message)
