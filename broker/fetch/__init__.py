"""What a client fetches: its fetch sessions, and the response made of several reads."""
