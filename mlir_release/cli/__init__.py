"""The command line: a module for each command, which turns arguments into calls and results into text.

Commands import what they run when they run: ``--help`` and mistakes in arguments must not wait for it.
"""
