"""A client of Kafka's protocol on trio, for commands and for whatever of Ottla asks a cluster.

It speaks to any Kafka cluster. `config` reads Kafka's client properties, `connection` is one connection, `cluster`
finds brokers, controllers, coordinators and leaders, and `admin/` has one module for each thing to administer. It must
not know a broker's inside. Counterparts in Kafka: NetworkClient, KafkaAdminClient.
"""
