"""Transactions: the log of their coordinator, markers on their way, and what partition leaders ask coordinators.

The states of transactions are decided in `coordinator`, and the rules of an append in `log`. This room connects them
over the network.
"""
