"""The forge on GitHub."""
