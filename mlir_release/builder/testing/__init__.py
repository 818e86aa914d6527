"""Suites: run, with known failures, and reported."""
