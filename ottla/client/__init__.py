"""A client of Kafka's protocol on trio, for the commands and for other parts of Ottla that need a cluster.

It works with any Kafka cluster. `config` reads Kafka's client properties, `connection` is one connection, `cluster`
finds brokers, controllers, coordinators and leaders, and `admin/` has one module for each kind of object. It must not
know a broker's inside. Counterparts in Kafka: NetworkClient, KafkaAdminClient.
"""
