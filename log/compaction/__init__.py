"""Compaction: which log is dirty, the process that writes what stays, and swapping its segments in.

Each file name says to a start which segments count, whenever the broker ended.
"""
