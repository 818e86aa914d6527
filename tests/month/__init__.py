"""A month of a release repository on the loopback GitHub, in the time that its clock shows: nothing really waits.

:mod:`.schedule` is time, :mod:`.weather` what goes wrong with GitHub, :mod:`.workflows` what runs there, :mod:`.people`
who steps in, :mod:`.month` all of them together, and :mod:`.verdict` what must hold at the end.
"""
