"""Kafka's own topics as coordinators use them: appends that count when they are replicated, and loading."""
