"""What the tools for groups share: flags, calls, tables of columns, and resets of offsets."""
