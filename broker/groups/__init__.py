"""The group coordinator's side of `__consumer_offsets`: appending its records, loading them, and asking it."""
