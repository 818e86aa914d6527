"""Tracking issues: what failed, with the end of its log."""
