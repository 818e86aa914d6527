"""What builds and tests: SDKs, wheels, suites, and the projects that they are of. It takes orders.

It imports ``ground``. Begin with ``model/orders.py``, then ``sdk/port.py``, ``wheels/port.py`` and ``testing/port.py``.
"""
