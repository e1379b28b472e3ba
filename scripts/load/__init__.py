"""Load on a cluster, and what is measured of it: what both faces share.

`pace` limits a rate, `payloads` makes values, `latencies` and `measurement` count, `round_trips` sends records and
waits for them. `verifiable_producing` and `verifiable_consuming` are the programs of Kafka's system tests, and `events`
what these print. None of them knows a command line, or prints anything else.
"""
