"""The forge: one protocol, GitHub and a folder."""
