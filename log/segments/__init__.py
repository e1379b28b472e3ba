"""The files of a log: batches, their indexes, and the descriptors that read and write them.

A segment found on the disk is served only after its chain of batch headers was followed once.
"""
