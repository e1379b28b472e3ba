"""What stock clients produce, consume and administer."""
