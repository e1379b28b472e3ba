"""Batches of records: reading, building, validating, filtering, and compressing them again.

`batch` is the one name under which other rooms import these modules. A batch is opaque: only its header is written to.
"""
