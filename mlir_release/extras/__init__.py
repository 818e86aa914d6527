"""Rooms beside the trunk, found by their entry points: nothing of the trunk imports them (docs/extras.md)."""
