"""Whether a release repository is set up: findings, each with its remedy, from what was observed.

:mod:`.checks` has the table of checks. What a token may not see is reported as unknown, never as ok.
"""
