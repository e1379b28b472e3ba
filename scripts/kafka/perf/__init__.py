"""Common parts of the tools that measure: statistics of a producer, and tables of metrics."""
