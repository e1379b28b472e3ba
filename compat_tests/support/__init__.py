"""Brokers of either kind, stock clients, JVMs and their jars, Spark: what several rooms of these tests use."""
