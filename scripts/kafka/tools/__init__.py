"""Kafka's tools, one file each: flags, checks and lines."""
