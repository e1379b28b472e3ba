"""The files of a log: batches, their indexes, and the descriptors by which they are read and written.

Nothing found on the disk is served before its chain of batch headers was followed once.
"""
