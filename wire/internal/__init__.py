"""Messages inside of records: those of Kafka's internal topics, and those that members of a group send each other."""
