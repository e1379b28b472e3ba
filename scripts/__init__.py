"""The commands of whoever runs a cluster: one file a command, for any Kafka cluster.

`ottla topics` and its sisters have Ottla's face: `terminal/` holds what they share (options, formats, questions, exit
codes). `kafka/` holds Kafka's face: one file a tool, with Kafka's flags, lines and exit codes. Both faces call the
same operations, in `ottla.client.admin`. A command is a client like any other: it knows no broker's inside.
"""
