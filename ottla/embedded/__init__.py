"""`Broker` and `Cluster`: brokers in a child process, for any test suite.

`broker` is what tests import; `cluster` runs several brokers on one loop; the two `*_process` modules are what the
children run. Importing `broker` loads no server.
"""
