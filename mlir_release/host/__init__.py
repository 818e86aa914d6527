"""The machine: programs, files, caches, interpreters, compilers, containers, notifications."""
