"""What the tools for records share: readers of lines, formatters, deserializers, and the files of a log."""
