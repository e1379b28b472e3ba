"""Consumer groups of stock clients, also of different clients in one group."""
