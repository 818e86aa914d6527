"""The walk: what is observed, which commit is tested next, and what came of it."""
