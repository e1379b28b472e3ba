"""The data pipeline on PySpark: a client like any other."""
