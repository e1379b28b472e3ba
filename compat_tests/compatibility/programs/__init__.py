"""Drivers of clients: programs that answer the calls of `compat_tests.compatibility.calls`, a line of JSON each."""
