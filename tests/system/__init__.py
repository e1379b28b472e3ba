"""Tests of whole brokers in processes of their own."""
