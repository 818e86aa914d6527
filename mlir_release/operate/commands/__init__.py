"""The commands that ``--help`` lists under Operate."""
