"""Storage: segments, indexes, checkpoints, producer state. Plain blocking Python."""
