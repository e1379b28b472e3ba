"""Several brokers on one ZooKeeper."""
