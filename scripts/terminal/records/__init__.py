"""Records as commands print and read them: format strings, filters, ranges, JSON lines, Avro."""
