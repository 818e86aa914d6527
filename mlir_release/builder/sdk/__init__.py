"""SDKs: an installed LLVM of one revision with what one project needs."""
