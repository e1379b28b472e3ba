"""Opening a log: after a clean stop, or after a crash with a scan of its tail, in processes where that takes long."""
