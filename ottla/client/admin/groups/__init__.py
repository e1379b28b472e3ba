"""Groups of all types: their coordinators, descriptions, offsets and lag."""
