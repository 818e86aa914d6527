"""Distributions of several projects that are built from one LLVM: found on their own indexes, and locked together."""
