"""Rooms beside the trunk, found by their entry points: nothing of the trunk imports them (docs/extras.md).

Each may import every room but ``operate``, and no other extra. Begin with ``api.py``: what extras from outside import.
"""
