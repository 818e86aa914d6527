"""Where an SDK comes from: sources of llvm-project, Debian's packages, releases of LLVM."""
