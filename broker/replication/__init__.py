"""Followers: fetching from leaders, changes of the in-sync replicas, and replicas that move to another directory.

`decisions` is pure, `apply` carries it out, `fetchers` owns the tasks.
"""
