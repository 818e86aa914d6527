"""A release's way to PyPI."""
