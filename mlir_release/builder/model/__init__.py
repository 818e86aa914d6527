"""Typed data of what is built and tested: orders, names, suites, reports. Pure."""
