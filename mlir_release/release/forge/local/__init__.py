"""The forge in a folder."""
