"""SDKs: relocatable trees of an LLVM at one revision, for one project: import, build, describe."""
