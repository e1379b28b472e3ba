"""Common parts of the tools for records: readers of lines, formatters, deserializers, and the files of a log."""
