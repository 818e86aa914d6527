"""Programs: run, guarded, repeated; the variables that they see, and what must be installed."""
