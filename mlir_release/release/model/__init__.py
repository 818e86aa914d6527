"""Typed data of releases: tags, targets, the matrix, the manifest, the index. Pure."""
