"""One file per API: `handle` answers a request, `error_response` answers one that failed as a whole.

Handlers are plain functions that do not know each other. `bindings` gives them what they work on.
"""
