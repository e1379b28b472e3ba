"""What single tools for clusters know: versions of Kafka's own client, features, files of reassignments, configs."""
