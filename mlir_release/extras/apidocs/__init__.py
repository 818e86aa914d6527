"""The API documentation of a release's wheel, read from its sources and stubs; nothing of the wheel is executed."""
