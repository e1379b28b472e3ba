"""Measured side by side with Apache Kafka, in one run: `make bench`."""
