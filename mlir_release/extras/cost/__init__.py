"""Runner minutes and their cost: measured, and estimated."""
