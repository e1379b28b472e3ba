"""Connections: listeners that accept them, frames in, replies out, and connections to other brokers.

Knows frames and sessions, but no API. Memory grows with received bytes, never with announced sizes.
"""
