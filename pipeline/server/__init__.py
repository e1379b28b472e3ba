"""`ottla pipeline serve`: many jobs, run as processes, with Connect's REST interface.

`main.serve` begins. Counterpart in Kafka: ConnectDistributed.
"""
