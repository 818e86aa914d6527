"""Whether a release repository is set up: findings, each with its remedy, from what was observed.

:mod:`.examine` gathers the observations and runs the checks, which are pure functions of them. What a token may not see
is reported as unknown, never as ok.
"""
