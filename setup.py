"""Entry for tools that still call ``setup.py``; every piece of metadata lives in pyproject.toml."""

from setuptools import setup

setup()
