"""The server: the only package that sees all the others."""
