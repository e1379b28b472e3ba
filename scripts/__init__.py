"""The commands for operators of a cluster: one file for each command, for any Kafka cluster.

`ottla topics` and the other files here are Ottla's face; `terminal/` holds their common options, formats, questions and
exit codes. `kafka/` is Kafka's face: one file for each tool, with Kafka's flags, lines and exit codes. Both faces call
the same operations, in `ottla.client.admin`. A command is a client like any other: it must not know a broker's inside.
"""
