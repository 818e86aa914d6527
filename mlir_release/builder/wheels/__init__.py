"""Wheels: staged, built, inspected, compared."""
