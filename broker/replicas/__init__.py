"""The partitions that this broker hosts: roles, appends, reads, the high watermark, waits and fsyncs.

`parts` makes what all of them share, `manager` is what handlers call. A record is acknowledged with acks=all when it is
below the high watermark; consumers read nothing at or above the high watermark. Offsets are assigned after all checks,
so that a refused batch leaves no trace.
"""
