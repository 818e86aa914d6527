"""Files by which a downstream project pins one release of the wheels, and moves that pin."""
