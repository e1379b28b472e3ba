"""Kafka's tools against brokers of either kind, and Ottla's imitation of them against Kafka's."""
