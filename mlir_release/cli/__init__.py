"""Arguments to calls: nothing is decided here."""
