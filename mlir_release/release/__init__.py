"""The trunk: from a pin to a published release, its signatures, its index and its pages.

It imports ``builder`` and ``ground``. Begin with ``transaction/tend.py``, which plans, and ``transaction/start.py``.
"""
