"""MLGO: learn a policy for evictions or inlining on code of one's own, on stock LLVM packages.

The modules, in the order in which a policy comes about:

- ``command`` has the commands. ``documents`` has the files that one writes and the next reads.
- ``corpus`` takes modules from a build tree, or (``thinlto``) from a link, with its ``response_files``. ``cc1`` knows
  their compile options, and which of them are safe. ``toolchain`` is the LLVM that a policy is for.
- ``problems`` is a table of the two decisions that can be learned. ``conversation`` runs a compiler that asks, and
  ``features`` reads its questions. ``compiling`` compiles modules in this way, and measures the result.
- ``trace`` watches the default decide. ``policies`` scores choices. ``train`` improves a policy, and ``evaluate``
  compares it with the default, also by the ``instructions`` of real programs. ``report`` draws both.
- ``embed`` writes a policy as C++, and links a compiler with it.
- ``ml_compiler_opt`` is another trainer, and ``saved_model`` the kind of policy that it makes. They need TensorFlow,
  so ``in_tensorflow`` runs in an interpreter of the user's.
"""
