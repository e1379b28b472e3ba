"""Benchmarks of Ottla and Apache Kafka side by side, in one run: `make bench`."""
