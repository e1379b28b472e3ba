"""One module per API: `handle` returns the response to a request, `error_response` to one that failed as a whole.

Handlers are plain functions that do not know each other. `bindings` passes them their collaborators. A head says what
clients can rely on (Behaviour) and how the served versions differ (Versions). It leaves out throttle times, which are
always 0, error codes that are never returned, and flexible encoding, which the codec handles.
"""
