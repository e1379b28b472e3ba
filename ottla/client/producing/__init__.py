"""Producing: batches, partitions, and sending them in order, once each.

Counterpart in Kafka: org.apache.kafka.clients.producer.
"""
