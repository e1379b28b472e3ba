"""Log directories: Kafka's tools read ours, and both keep and delete alike."""
