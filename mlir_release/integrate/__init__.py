"""Walk a downstream project's LLVM forward, with smoke tests, carried patches, exact culprits and a report.

It imports ``ground`` alone, and knows no release. Begin with ``loop.py``, then ``walk/walk.py``.
"""
