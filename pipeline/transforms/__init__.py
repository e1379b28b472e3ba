"""Connect's transforms, under their names in Connect, as columns of a record frame.

Owns which there are, and how a job names them. Imports without pyspark: whatever can be known of a job without data is
found by `read_transforms`, the rest by `apply_transforms` when it sees the schema, and before any row. Must not know
sources, formats or sinks. Counterparts in Kafka: ConnectorConfig.transformationStages, TransformationChain.
"""

from collections.abc import Iterable
from typing import TYPE_CHECKING, Final

from ottla.pipeline.declared import class_of, named_parts
from ottla.pipeline.predicates import read_predicates
from ottla.pipeline.settings import Settings
from ottla.pipeline.transforms.cast import Cast
from ottla.pipeline.transforms.drop_headers import DropHeaders
from ottla.pipeline.transforms.extract_field import ExtractField
from ottla.pipeline.transforms.filter import Filter
from ottla.pipeline.transforms.flatten import Flatten
from ottla.pipeline.transforms.header_from import HeaderFrom
from ottla.pipeline.transforms.hoist_field import HoistField
from ottla.pipeline.transforms.insert_field import InsertField
from ottla.pipeline.transforms.insert_header import InsertHeader
from ottla.pipeline.transforms.mask_field import MaskField
from ottla.pipeline.transforms.regex_router import RegexRouter
from ottla.pipeline.transforms.replace_field import ReplaceField
from ottla.pipeline.transforms.set_schema_metadata import SetSchemaMetadata
from ottla.pipeline.transforms.timestamp_converter import TimestampConverter
from ottla.pipeline.transforms.timestamp_router import TimestampRouter
from ottla.pipeline.transforms.transform import PACKAGE, PartTransform, Transform
from ottla.pipeline.transforms.value_to_key import ValueToKey

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

__all__ = ["PACKAGE", "TRANSFORMS", "Transform", "apply_transforms", "read_transforms"]

_CLASSES: Final[tuple[type[Transform], ...]] = (
    Cast,
    DropHeaders,
    ExtractField,
    Filter,
    Flatten,
    HeaderFrom,
    HoistField,
    InsertField,
    InsertHeader,
    MaskField,
    RegexRouter,
    ReplaceField,
    SetSchemaMetadata,
    TimestampConverter,
    TimestampRouter,
    ValueToKey,
)


def _by_name() -> dict[str, type[Transform]]:
    found: list[type[Transform]] = []
    for each in _CLASSES:
        found += [each.on("Key"), each.on("Value")] if issubclass(each, PartTransform) else [each]
    return {each.__name__: each for each in found}


TRANSFORMS: Final = _by_name()


def read_transforms(job: Settings) -> list[Transform]:
    """Read the transforms and predicates of a whole job, in their order; JobError for what cannot stand."""
    predicates = read_predicates(job)
    parts = named_parts(job, "transforms").values()
    return [class_of(part, TRANSFORMS, PACKAGE)(part, predicates) for part in parts]


def apply_transforms(frame: "DataFrame", transforms: Iterable[Transform]) -> "DataFrame":
    """Return what transforms make of a record frame, one after the other; JobError where its schema forbids one."""
    for transform in transforms:
        frame = transform.apply(frame)
    return frame
