"""The partitions that this broker hosts: roles, appends, reads, the high watermark, waits and fsyncs.

`manager` is the registry of partitions. Acknowledged with acks=all means: below the high watermark. Nothing at or above
it is read by a consumer. Offsets are assigned after all checks, so that a refused batch leaves no trace.
"""
