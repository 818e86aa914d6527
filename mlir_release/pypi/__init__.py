"""Numbered releases on PyPI."""
