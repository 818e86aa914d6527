"""The main job on one machine: new upstream commit, snapshot, wheels, tests, release, index, clean installation.

Everything is real except the place: the upstream is a small git repository whose commits represent real LLVM releases,
and the forge is a folder. The workspace is kept: a second run resumes at the first unfinished step. :mod:`.world` makes
the repositories, :mod:`.run` does the job in them, :mod:`.report` shows the results.
"""
