"""Files, archives, downloads, caches, and the room on a disk."""
