"""The commands ``sdk`` and ``wheels``."""
