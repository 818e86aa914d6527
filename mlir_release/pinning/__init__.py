"""From a moving upstream to a pinned, tagged, dispatched build: select, plan, apply."""
