"""Consumer groups over restarts of brokers."""
