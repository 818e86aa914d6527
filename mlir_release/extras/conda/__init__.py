"""Recipes that make conda packages of a release's wheels."""
