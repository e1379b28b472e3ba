"""Consumer groups over the ends of brokers."""
