"""Tests of Ottla; the folders mirror the tree."""
