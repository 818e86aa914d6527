"""Stage, build, inspect and test bindings wheels."""
