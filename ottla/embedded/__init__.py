"""`Broker` and `Cluster`: brokers in a child process, for any test suite.

Tests import `broker`, which loads no server. `cluster` runs several brokers on one loop. The children run the two
`*_process` modules.
"""
