"""What keeps a release repository well: the doctor, and issues about what fails.

It imports ``use``, ``integrate`` and what those import. Begin with ``doctor/checks.py``.
"""
