"""The controller: who leads what, decided in one event loop."""
