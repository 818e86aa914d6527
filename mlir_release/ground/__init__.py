"""What every room stands on: output, errors, text of others, documents, files, programs, CPythons, git, llvm-project.

It imports nothing above itself, and knows no release. Begin with ``errors`` and ``console``.
"""
