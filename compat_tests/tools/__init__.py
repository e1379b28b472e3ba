"""Kafka's tools with brokers of either kind, and Ottla's imitation of the tools compared with Kafka's tools."""
