"""Running the workflows for real: act as the runner, and small stand-ins for the actions that need GitHub itself."""
