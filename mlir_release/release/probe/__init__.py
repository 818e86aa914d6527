"""The first commands of the pages, tried as a user would."""
