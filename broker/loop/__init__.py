"""Time and turns: the clock, responses that come later, the watchdog, and the broker as a process.

Knows no request, no partition and no configuration key.
"""
