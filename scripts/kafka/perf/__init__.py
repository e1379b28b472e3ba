"""What the tools that measure share: statistics of a producer, and tables of metrics."""
