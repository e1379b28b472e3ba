"""Parts of the tools for clusters: versions of Kafka's client, features, files of reassignments, configs."""
