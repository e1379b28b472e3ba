"""Stock clients and tools against Ottla and Apache Kafka; imports nothing of ours."""
