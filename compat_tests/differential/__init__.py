"""The same requests to Ottla and to Apache Kafka, by scenario or generated, and a comparison of the answers."""
