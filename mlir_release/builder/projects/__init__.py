"""The projects that are built: each with its wheel project, its smoke test and its known failures."""
