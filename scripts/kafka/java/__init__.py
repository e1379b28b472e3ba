"""Java as it shows in the lines of Kafka's tools: names of exceptions, orders of hash maps, numbers, times, JSON."""
