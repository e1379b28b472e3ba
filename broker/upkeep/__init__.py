"""Periodic work: checkpoints, retention and compaction; and the stray logs that are found at start."""
