"""The Kafka protocol: bytes in, values out. Pure; imports no other room."""
