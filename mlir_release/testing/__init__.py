"""Test suites for wheels and SDKs, and what came out of them."""
