"""Check that a release repository is set up: findings from observations, each with its remedy.

:mod:`.checks` has the table of checks. A setting that the token may not see is reported as unknown, never as ok.
"""
