"""The group coordinator in the broker: how it is connected to `__consumer_offsets`, and what its handlers share."""
