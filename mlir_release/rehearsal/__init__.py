"""The whole main job on one machine: a moving upstream, a bump, a tag, wheels, tests, a release, an index, a stranger.

Everything is real except the place: the upstream is a small git repository whose commits stand for real LLVM releases
(the catalogue says which), and the forge is a folder. The workspace is kept, and a second run finishes or repeats only
what is not done. ``stage`` makes the world, ``run`` does the job in it, ``report`` says what came out.
"""
