"""Carried patches, and where they are pushed."""
