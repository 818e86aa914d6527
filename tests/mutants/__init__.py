"""Faults put into the toolkit on purpose, each with the tests that must notice it: see ``make mutants``."""
