"""Which release broke a command, or mended it."""
