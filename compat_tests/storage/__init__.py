"""Log directories: Kafka's tools read those of Ottla, and both brokers clean and delete the same records."""
