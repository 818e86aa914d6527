"""Compilers, build tools and containers."""
