"""Signatures by workflows (Sigstore), which prove who built a file: the rules, the verification and the signing."""
