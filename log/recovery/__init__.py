"""Opening a log: without a scan after a clean shutdown, else with a scan of its tail, in processes if it is long."""
