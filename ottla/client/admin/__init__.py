"""What can be administered: one module a thing, with plain functions over a `Client`.

A function returns plain values, or a result for each item that was asked for: a value, or the KafkaError of that item.
It raises where the whole request failed. Both faces of the commands, and whoever else administers a cluster, call it.
Counterpart in Kafka: KafkaAdminClient.
"""
