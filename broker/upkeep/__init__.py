"""What is due now and then: checkpoints, retention, compaction, and logs that no metadata knows."""
