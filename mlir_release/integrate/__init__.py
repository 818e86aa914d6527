"""Walk a downstream project's LLVM forward, with smoke tests, carried patches, exact culprits and a report."""
