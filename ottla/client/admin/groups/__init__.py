"""Groups of every type: finding their coordinators, describing them, and their offsets and lag."""
