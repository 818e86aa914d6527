"""The commands that ``--help`` lists under Release, and the commands of ``release``."""
