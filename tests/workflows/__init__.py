"""Runs the workflows with act as the runner, and with small stubs of the actions that need GitHub itself."""
