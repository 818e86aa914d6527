"""Bisect published releases: which one broke a command, or which one mended it."""
