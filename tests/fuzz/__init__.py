"""Malformed input for every reader and every command: ``python -m tests.fuzz --help`` (``make fuzz``).

::

    mutation.py   a sound file becomes a malformed one; the same seed gives the same one
    world.py      sound files of all kinds, made by the factories of the other tests
    readers.py    the functions that read what others wrote, and what each may raise
    commands.py   all commands, and which files each of them reads
    sandbox.py    one try in a child process, bounded in memory and time
    campaign.py   many tries, and what they found
    coverage.py   the readers again, guided by coverage (Atheris)
"""
