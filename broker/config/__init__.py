"""The broker's configuration: keys, listeners, limits, and the values that change while it runs.

A key is declared once, with its type, default, bounds and document. A value that cannot be honoured safely is refused.
"""
