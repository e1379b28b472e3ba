"""The group coordinator in the broker: its appends to `__consumer_offsets`, its loading from there, its requests."""
