"""Drivers of clients: programs that answer calls, one line of JSON each."""
