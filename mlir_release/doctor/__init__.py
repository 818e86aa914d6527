"""Whether a release repository is set up: findings, each with its remedy, from what was observed. Pure.

:mod:`mlir_release.forge.github.settings` observes. What a token may not see is said to be unknown, not well.
"""
