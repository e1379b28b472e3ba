"""Clusters of Ottla and Apache Kafka brokers on one ZooKeeper."""
