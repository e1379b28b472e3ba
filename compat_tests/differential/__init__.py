"""The same requests to Ottla and to Apache Kafka, from scenarios or generated, and a comparison of the answers."""
