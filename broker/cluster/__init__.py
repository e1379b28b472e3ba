"""What every broker knows of its cluster: metadata, topics' and brokers' configs, producer ids, and the controller.

`metadata_cache` holds what the controller sent last. Strangers may write into the store: a znode that cannot be read is
logged and passed over, and never stops a broker.
"""
