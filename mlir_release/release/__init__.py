"""A draft's way to publication: upload, verify, publish; decisions; mirror; install."""
