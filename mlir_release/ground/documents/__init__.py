"""Documents of others and of our own: read within bounds, dated, digested."""
