"""The state of a log and its directory beside batches: leader epochs, producers, checkpoints, identity, failures."""
