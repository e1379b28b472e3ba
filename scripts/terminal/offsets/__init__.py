"""Offsets of groups as `ottla groups` changes them: targets, plans with a preview, and files for the way back."""
