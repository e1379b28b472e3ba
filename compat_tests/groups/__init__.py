"""Consumer groups of stock clients, also several clients in one group."""
