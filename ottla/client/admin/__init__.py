"""Administration of a cluster: one module for each kind of object, with plain functions over a `Client`.

A function returns plain values, or a result for each requested item: a value, or the KafkaError of that item. It raises
if the whole request failed. Both faces of the commands call it.
Counterpart in Kafka: KafkaAdminClient.
"""
