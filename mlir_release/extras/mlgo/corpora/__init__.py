"""Modules to learn on, with their compile options."""
