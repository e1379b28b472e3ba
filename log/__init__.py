"""Storage: the files of a broker, byte for byte Kafka's.

Plain blocking Python: no trio, no sockets, no leaders. `manager` has the directories and all logs, `log` one partition.
A segment and its indexes can be made anew from the batches alone. No flushed byte is cut off without an error line.
"""
