"""Revisions that are chosen, pinned and checked."""
