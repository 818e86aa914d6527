"""Typed data: one class a document, and what the names in it mean. Pure."""
