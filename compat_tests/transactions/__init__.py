"""Transactions of stock clients and of Kafka's tools, with Ottla and with Apache Kafka, and illegal acts on both.

`acts` has the vocabulary: one function for each request. `scenarios` is the table of named sequences of acts, `states`
has every act in every state of a transactional id. `stage` sends acts to both brokers and compares field by field, by
the classes of `differential.generated`. `allowed` is the table of all allowed differences, with their reasons.
"""
