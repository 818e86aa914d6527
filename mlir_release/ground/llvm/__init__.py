"""llvm-project: its projects and versions, the facts of a revision, its repository, and where it is pinned."""
