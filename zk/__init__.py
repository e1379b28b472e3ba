"""Cluster metadata: znodes and the stores that hold them."""
