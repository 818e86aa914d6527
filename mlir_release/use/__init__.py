"""What people do with published releases: install, find, mirror, make again, bisect, try in other projects.

It imports ``release`` and what that imports. Begin with ``install.py``.
"""
