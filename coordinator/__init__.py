"""The coordinators of groups and of transactions, as pure decisions and a runtime for them.

Knows no log, no zk, no broker.
"""
