"""Storage: the files of a broker, byte for byte Kafka's.

Plain blocking Python: no trio, no sockets, no leaders. `manager` holds the directories and all logs, `log` the log of
one partition. Indexes can be rebuilt from the batches alone. Recovery logs an error before it drops flushed bytes.
"""
