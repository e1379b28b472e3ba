"""Kafka's tools, one file each: flags, checks and lines as the tool has them."""
