"""Common parts of these tests: brokers of either kind, stock clients, JVMs and their jars, Spark."""
