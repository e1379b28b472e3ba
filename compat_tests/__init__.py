"""Tests of Ottla and Apache Kafka with stock clients and tools. They import nothing of Ottla."""
