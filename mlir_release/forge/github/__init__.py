"""The forge on GitHub, through its REST API."""
