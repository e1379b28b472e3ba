"""Common parts of the tools for groups: flags, calls, tables, and resets of offsets."""
