"""The command ``integrate``, and the commands below it."""
