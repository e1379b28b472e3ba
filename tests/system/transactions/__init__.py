"""Transactions while brokers end, and after that: copies from topic to topic, restarts, timeouts, new coordinators."""
