"""The command line, as files: every command's help and a typical run of it. A change of the interface is a diff here.

Each file holds what a person would see in a terminal: lines after ``$`` are run, in a copy of the world of
:mod:`.world`. After a deliberate change, ``python -m tests.commands`` writes the files anew.
"""
