"""Where the release repository lives: branches, tags, releases and their assets."""
