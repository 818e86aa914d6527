"""Signatures: made, bound to a policy, verified."""
