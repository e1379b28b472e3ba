"""The Kafka protocol: bytes in, values out. Pure; knows nobody."""
