"""Generated requests to Ottla and to Apache Kafka 3.9.2 with ZooKeeper, whose answers are compared field by field.

`specification` reads Kafka's own description of its requests, `pools` says which values a field may have, `generator`
makes requests of both, in which `own` stands for what each broker has its own of. `codec` encodes requests and decodes
answers with Kafka's classes. `pair` sends one request to both brokers, `session` sends many, by which state evolves,
and `shrinking` finds the shortest sequence of requests that still fails. `allowed` is the table of all differences that
are meant, `advertised` says which APIs and versions there are. `controllers` holds the requests that only brokers send.
"""
