"""Compaction: which log is dirty, the process that writes cleaned segments, and swapping these segments in.

After a crash at any point, the names of the files tell a start which segments count.
"""
