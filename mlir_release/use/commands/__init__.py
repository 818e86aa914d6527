"""The commands that ``--help`` lists under Use."""
