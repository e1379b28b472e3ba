"""Consuming: fetching partitions in order, and membership in a group of the classic protocol.

Counterpart in Kafka: org.apache.kafka.clients.consumer.
"""
