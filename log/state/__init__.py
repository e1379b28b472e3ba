"""What a log and its directory remember beside batches: leader epochs, producers, checkpoints, identity, failures."""
