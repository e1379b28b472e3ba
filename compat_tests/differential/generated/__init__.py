"""Generated requests to Ottla and to Apache Kafka 3.9.2 with ZooKeeper; the answers are compared field by field.

`specification` reads Kafka's definitions of its requests, `pools` has the values of fields, and `generator` makes
requests of both, with `own` for values that differ between brokers. `codec` encodes requests and decodes answers with
Kafka's classes. `pair` sends one request to both brokers, `session` sends a sequence that changes state, and
`shrinking` finds a shorter sequence that still fails. `allowed` is the table of all allowed differences, `advertised`
has the APIs and versions. `controllers` has the requests that only brokers send.
"""
