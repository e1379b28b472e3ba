"""`record_scan` in the form that runs: compiled if there is one that was made of the source as it is, else plain.

Owns: that choice. Must not know: how the compiled form is made. Counterpart in Kafka: none.
"""

import pkgutil
from importlib import import_module
from importlib.util import source_hash
from types import ModuleType

from ottla.wire import record_scan

SOURCE = "record_scan.py"
NATIVE = "_record_scan_native"


def source_digest() -> str:
    """The digest of the source as it is now, for this version of Python."""
    return source_hash(pkgutil.get_data("ottla.wire", SOURCE) or b"").hex()


def _fitting_form() -> ModuleType:
    try:
        native = import_module(f"ottla.wire.{NATIVE}")
    except ImportError:
        return record_scan
    return native if source_digest() == native.SOURCE_DIGEST else record_scan


FORM = _fitting_form()
SCAN_IS_COMPILED = FORM is not record_scan

RecordScan: type[record_scan.RecordScan] = FORM.RecordScan
PieceReader: type[record_scan.PieceReader] = FORM.PieceReader
read_varint = FORM.read_varint
read_varlong = FORM.read_varlong
scan_pieces = FORM.scan_pieces
renumber = FORM.renumber
