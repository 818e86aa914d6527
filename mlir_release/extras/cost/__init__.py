"""Runner minutes and what they cost: measured, and estimated."""
