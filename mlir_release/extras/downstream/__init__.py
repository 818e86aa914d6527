"""What a downstream project needs to pin one release of the wheels, and to move that pin."""
