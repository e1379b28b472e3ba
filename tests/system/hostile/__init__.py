"""Bad input, bad brokers, bad znodes, clients that do not read."""
