"""Load on a cluster and its measurement, for both faces.

`pace` limits a rate, `payloads` makes values, `latencies` and `measurement` count, `round_trips` sends records and
waits for them. `verifiable_producing` and `verifiable_consuming` are the programs of Kafka's system tests, and `events`
prints their lines. None of them knows a command line, or prints anything else.
"""
