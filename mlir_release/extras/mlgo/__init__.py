"""MLGO: learn a register allocator's eviction policy on a corpus of one's own, on stock LLVM packages."""
