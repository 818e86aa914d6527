"""Which release is the newest, and which is known to be good: the signed pointer, the catalogue, what is learnt."""
