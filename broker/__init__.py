"""The server: listeners, requests, partitions, and the controller of a cluster.

`node` starts and stops it, `assembly` creates its parts and subscribes them to each other, `bindings` gives handlers
what they work on. All else lies in rooms, and imports between rooms go down only:

handlers > groups, transactions, replication, upkeep, controller > fetch, internal_topics > replicas > cluster >
requests > net > config > loop.

One trio loop owns all state. Between two awaits one task has it to itself, so there is no await between a check and
the act that relies on it.
"""
