"""What holds for every command: its two faces, its failures, and being broken off."""
