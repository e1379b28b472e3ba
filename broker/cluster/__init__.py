"""What every broker knows of its cluster: metadata, topics' and brokers' configs, producer ids, and the controller.

`metadata_cache` holds what the controller sent last. What stands in the store may be anybody's: an entry that cannot be
read is logged and passed over, and never ends a broker.
"""
