"""A commit that breaks the project: shown, and fixed by a person."""
