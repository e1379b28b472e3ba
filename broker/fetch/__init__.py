"""Fetch sessions, and the response that is made of several reads."""
