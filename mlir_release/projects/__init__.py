"""What is built: each project with its wheel project, its smoke test and its known failures."""
