"""Compaction, recompression and `ottla verify` on a running broker's files."""
