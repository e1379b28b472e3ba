"""Printing and reading records: format strings, filters, ranges, JSON lines, Avro."""
