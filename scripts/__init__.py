"""Admin commands: one a file, with the flags of Kafka's own tools."""
