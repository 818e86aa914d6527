"""How people install a release: locks, commands, notes, and a check of both."""
